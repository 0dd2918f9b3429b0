"""Probe: how often a text is in a daemon's log or the kernel's, by grep and dmesg."""

import shlex

from faultlab.engine.shell import Shell

NGINX_ERROR = "/var/log/nginx/error.log"
PHP_FPM = "/var/log/php/fpm.log"


def count(machine: Shell, file: str, text: str) -> int:
    """Count the lines of a log file in the machine that contain `text`; 0 without a file."""
    its = shlex.quote(machine.root + file)
    command = f"cat {its} 2>/dev/null | grep -cF -- {shlex.quote(text)}"
    return int(machine.run(command).out.strip() or 0)


def kernel_count(kernel: Shell, text: str) -> int:
    """Count the lines of the kernel's ring buffer that contain `text`."""
    return int(kernel.run(f"dmesg | grep -cF -- {shlex.quote(text)}").out.strip() or 0)
