"""Scenarios of a client: each is a function that returns what it saw, as JSON. A test in TypeScript says what it must be.

One line is printed for each: {"scenario": name, "seen": …}, or "failed" with the traceback of an unexpected exception.
"""

import asyncio
import inspect
import json
import os
import sys
import traceback
import urllib.request

GATEWAY_URL = os.environ.get("GATEWAY_URL", "")
GATEWAY_KEY = os.environ.get("GATEWAY_KEY", "")

_scenarios = []


def scenario(*parameters):
    """Registers a function, once for each parameter; without parameters as it is: `@scenario()`."""

    def register(function):
        if not parameters:
            _scenarios.append((function.__name__, function, ()))
        for parameter in parameters:
            _scenarios.append((f"{function.__name__}[{parameter}]", function, (parameter,)))
        return function

    return register


def fault(model, **fault):
    """What the provider behind the model does with its next request: see infra/simulated-provider/README.md."""
    body = json.dumps({"model": model, "fault": fault}).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["FAULTS_URL"], data=body)).read()


def raised(function):
    """The name, status and code of the error that a call must end with."""
    try:
        function()
    except Exception as error:
        return described(error)
    raise AssertionError("the call succeeded")


async def raised_async(awaitable):
    try:
        await awaitable
    except Exception as error:
        return described(error)
    raise AssertionError("the call succeeded")


def described(error):
    """An error as JSON: its class, the words in it and, where it has them, status, code and param."""
    facts = {"error": type(error).__name__, "message": str(error)}
    for name in ("status_code", "code", "param", "type", "request_id"):
        value = getattr(error, name, None)
        if value is not None:
            facts[name] = value
    return facts


def run_scenarios():
    """Runs all that were registered, one after the other, in one event loop for those that are asynchronous."""
    with asyncio.Runner() as runner:
        for name, function, arguments in _scenarios:
            try:
                seen = function(*arguments)
                if inspect.isawaitable(seen):
                    seen = runner.run(_awaited(seen))
                line = {"scenario": name, "seen": seen}
                printed = json.dumps(line)
            except Exception as error:
                # The frames of the scenario, and not those of the package.
                trace = "".join(traceback.format_exception(error, limit=4, chain=False))
                printed = json.dumps({"scenario": name, "failed": trace})
            print(printed)
            sys.stdout.flush()


async def _awaited(awaitable):
    return await asyncio.wait_for(awaitable, timeout=30)
