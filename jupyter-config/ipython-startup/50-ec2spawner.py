"""Loads the magics of cost, of the GPU check, and of sleep and wake on an instance of ec2spawner.

IPython runs this at its start in the environment that ec2spawner is installed in. What the user's
own profile says comes later and wins. Nothing here may fail, or leave a name behind. The file's
name is no module's: IPython puts this folder on `sys.path` meanwhile.
"""


def _ec2spawner_magics():
    import os

    if not os.environ.get("EC2SPAWNER_AGENT_SOCKET"):
        return
    shell = get_ipython()  # noqa: F821 - IPython's own name
    try:
        import ec2spawner

        ec2spawner.load_ipython_extension(shell)
    except ImportError:
        pass  # A kernel of another environment may read this folder too.
    except Exception:
        shell.log.exception("ec2spawner: %%cost, %gpu_check and %sleep are not loaded")


_ec2spawner_magics()
del _ec2spawner_magics
