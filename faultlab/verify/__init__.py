"""The contract of each lab, case by case, judged by pytest; and how often a lab passes it."""
