"""Score: diagnostic tools, examined on labs whose truth is known."""
