"""Systemd's manager as systemd-logind needs it, on a bus without a systemd: the targets of a shutdown are there, and
starting one takes until this process gets SIGUSR1, when the job fails: the machine stays up after all.

    systemd_manager.py ADDRESS PID      the bus, and the process that is systemd-logind.service

A signal for that unit is one for that process. "ready" is printed when it can be asked.
"""

from __future__ import annotations

import os
import signal
import sys

from jeepney import DBusAddress, HeaderFields, MessageType, new_method_return, new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

NAME, PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
JOB = f"{PATH}/job/1"
MANAGER = DBusAddress(PATH, bus_name=NAME, interface=f"{NAME}.Manager")


def main(address: str, logind: int) -> None:
    bus = open_dbus_connection(address)
    bus.send_and_get_reply(message_bus.RequestName(NAME))
    started: list[str] = []

    def fail_job(*_: object) -> None:
        bus.send(new_signal(MANAGER, "JobRemoved", "uoss", (1, JOB, started.pop(), "failed")))

    signal.signal(signal.SIGUSR1, fail_job)
    print("ready", flush=True)
    while True:
        message = bus.receive()
        if message.header.message_type is not MessageType.method_call:
            continue
        match message.header.fields[HeaderFields.member]:
            case "Get" if message.body[1] == "LoadState":
                reply = new_method_return(message, "v", (("s", "loaded"),))
            case "StartUnit":
                started.append(message.body[0])
                reply = new_method_return(message, "o", (JOB,))
            case "KillUnit":
                os.kill(logind, message.body[2])
                reply = new_method_return(message)
            case _:
                reply = new_method_return(message)
        bus.send(reply)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
