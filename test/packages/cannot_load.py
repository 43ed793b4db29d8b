"""Run a program as in a Python whose sqlite3 cannot load extensions.

    python3 cannot_load.py PROGRAM.py ARGUMENT...
    python3 cannot_load.py claimq ARGUMENT...       the command
"""
import runpy
import sys

import claimq

claimq._able = False
sys.argv = sys.argv[1:]
if sys.argv[0] == "claimq":
    runpy.run_module("claimq", run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
