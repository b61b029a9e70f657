"""What a real instance prints on its console beside what user-data says. Pure.

Kernel, systemd and cloud-init print it at every boot and every shutdown, so that the lines that
say why an instance failed are never the last ones. Modeled on Ubuntu 24.04 on EC2: its cloud-init
prints host keys and fingerprints after the user's script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

CLOUD_INIT_VERSION = "25.2-0ubuntu1~24.04.1"


def boot_lines(instance_id: str, address: str) -> Iterator[str]:
    """From the kernel's first line to the user-data."""
    host = host_name(address)
    yield "[    0.000000] Linux version 6.17.0-1017-aws (build@lcy02-amd64-001) #17-Ubuntu SMP"
    yield "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=PARTUUID=4f68 ro console=ttyS0"
    yield "[    0.004212] Hypervisor detected: KVM"
    yield "[    0.871330] nvme nvme0: pci function 0000:00:04.0"
    yield "[    1.402211] EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode"
    yield "[    1.733021] systemd[1]: systemd 255.4-1ubuntu8 running in system mode (+PAM +AUDIT)"
    yield "[    1.733340] systemd[1]: Detected virtualization amazon."
    yield "[    1.740182] systemd[1]: Hostname set to <" + host + ">."
    yield "         Starting systemd-udevd.service - Rule-based Manager for Device Events..."
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Started systemd-udevd.service - Rule-based Manager."
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Reached target sysinit.target - System Initialization."
    stage = "[    6.120911] cloud-init[612]: "
    yield f"{stage}Cloud-init v. {CLOUD_INIT_VERSION} running 'init' at Sun, 22 Nov 2026. Up 6.1 s"
    rule = f"{stage}ci-info: {'+' * 24}Net device info{'+' * 24}"
    yield rule
    yield f"{stage}ci-info: | Device |  Up  |    Address    |      Mask     | Scope  | Hw-Address |"
    yield f"{stage}ci-info: |  ens5  | True | {address:^13} | 255.255.240.0 | global |     .      |"
    yield f"{stage}ci-info: +--------+------+---------------+---------------+--------+------------+"
    yield f"{stage}Generating public/private ed25519 key pair."
    yield f"{stage}Your identification has been saved in /etc/ssh/ssh_host_ed25519_key"
    yield f"{stage}Your public key has been saved in /etc/ssh/ssh_host_ed25519_key.pub"
    yield f"{stage}The key fingerprint is:"
    yield f"{stage}{_fingerprint(instance_id, 'ed25519')} root@{host}"
    yield f"{stage}The key's randomart image is:"
    yield f"{stage}+--[ED25519 256]--+"
    yield f"{stage}|   .o+o. .o      |"
    yield f"{stage}|    S.+ . =      |"
    yield f"{stage}+----[SHA256]-----+"
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Started ssh.service - OpenBSD Secure Shell server."
    yield "         Starting cloud-final.service - Cloud-init: Final Stage..."


def cloud_init_end_lines(instance_id: str, address: str) -> Iterator[str]:
    """What cloud-init prints after the user-data of the first boot, and the login prompt."""
    host = host_name(address)
    log = "<14>Nov 22 15:04:05 cloud-init: "
    yield f"{log}{'#' * 61}"
    yield f"{log}-----BEGIN SSH HOST KEY FINGERPRINTS-----"
    for kind, bits in (("ECDSA", 256), ("ED25519", 256), ("RSA", 3072)):
        yield f"{log}{bits} {_fingerprint(instance_id, kind)} root@{host} ({kind})"
    yield f"{log}-----END SSH HOST KEY FINGERPRINTS-----"
    yield f"{log}{'#' * 61}"
    yield "-----BEGIN SSH HOST KEY KEYS-----"
    for kind in ("ecdsa-sha2-nistp256", "ssh-ed25519", "ssh-rsa"):
        yield f"{kind} AAAA{_digest(instance_id, kind) * 3} root@{host}"
    yield "-----END SSH HOST KEY KEYS-----"
    yield f"Cloud-init v. {CLOUD_INIT_VERSION} finished at Sun, 22 Nov 2026. Up 15.1 s"
    yield from login_lines(address)


def login_lines(address: str) -> Iterator[str]:
    """The end of each boot."""
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Reached target multi-user.target - Multi-User System."
    yield ""
    yield f"Ubuntu 24.04.4 LTS {host_name(address)} ttyS0"
    yield ""
    yield f"{host_name(address)} login: "


def shutdown_lines(*, reboot: bool) -> Iterator[str]:
    """What systemd and the kernel print when the instance is shut down."""
    yield "         Stopping session-1.scope - Session 1 of User ubuntu..."
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Stopped target multi-user.target - Multi-User System."
    yield "         Unmounting boot-efi.mount - /boot/efi..."
    yield "\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Unmounted boot-efi.mount - /boot/efi."
    target = "reboot" if reboot else "poweroff"
    yield f"\x1b[0m[\x1b[0;32m  OK  \x1b[0m] Reached target {target}.target - System Shutdown."
    yield "[  612.301122] systemd-shutdown[1]: Syncing filesystems and block devices."
    yield "[  612.410334] systemd-shutdown[1]: Sending SIGTERM to remaining processes..."
    yield "[  612.613008] systemd-shutdown[1]: All filesystems unmounted."
    yield f"[  612.620877] systemd-shutdown[1]: {'Rebooting' if reboot else 'Powering off'}."
    yield f"[  612.721450] reboot: {'Restarting system' if reboot else 'Power down'}"


def host_name(address: str) -> str:
    """As EC2 names an instance in its VPC."""
    return f"ip-{address.replace('.', '-')}"


def _fingerprint(instance_id: str, kind: str) -> str:
    return f"SHA256:{_digest(instance_id, kind).rstrip('=')}"


def _digest(instance_id: str, kind: str) -> str:
    return base64.b64encode(hashlib.sha256(f"{instance_id} {kind}".encode()).digest()).decode()
