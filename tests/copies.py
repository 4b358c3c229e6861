"""A process that has imported the libraries, and runs each command that is asked for in a copy of itself.

    python -m tests.copies SOCKET

`helpers.copying_python` starts it and says which commands there are.
"""

import argparse
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
from contextlib import suppress

import datasets  # noqa: F401
import sklearn.linear_model  # noqa: F401
import torch
from transformers import Trainer  # noqa: F401

import electra.finetuning.runner
import electra.pretraining.run  # noqa: F401
from tests.helpers import load_late_imports


def main(address):
    """Import the libraries, and answer each connection to the socket in a copy of this process, without end."""
    load_late_imports()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the copies ended
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{address}.new")
        server.listen()
        os.rename(f"{address}.new", address)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                answer(connection)
                os._exit(0)
            connection.close()


def answer(connection):
    """Run the command of a connection in a copy, and send the exit code of the copy."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, *_ = socket.recv_fds(connection, 2**16, 3)
    while not request.endswith(bytes(1)):
        request += connection.recv(2**16)
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(request[:-1], streams)
    threading.Thread(target=pass_signals, args=(connection, pid), daemon=True).start()
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):  # nobody is there to be told
        connection.send(str(os.waitstatus_to_exitcode(status) % 256).encode())


def pass_signals(connection, pid):
    """Send a copy the signals that come, by their numbers; kill it when who asked for it has been killed."""
    with suppress(OSError):
        while number := connection.recv(1):
            os.kill(pid, number[0])
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def become(request, streams):
    """Run the command, and exit as Python does at its end."""
    words, folder, variables = json.loads(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    torch.set_num_threads(1)
    kind, *sys.argv = words if words[0] in ("-m", "-c", "-u") else ("-u", *words)
    if kind == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(words[1], {"__name__": "__main__"})
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", metavar="SOCKET", help="a file that is made when all is imported")
    main(parser.parse_args().address)
