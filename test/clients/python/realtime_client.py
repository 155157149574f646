"""Realtime sessions with OpenAI's package for Python, unchanged."""

from openai import OpenAI
from scenarios import GATEWAY_KEY, GATEWAY_URL, run_scenarios, scenario

client = OpenAI(
    base_url=f"{GATEWAY_URL}/v1",
    websocket_base_url=f"{GATEWAY_URL.replace('http', 'ws', 1)}/v1",
    api_key=GATEWAY_KEY,
    max_retries=0,
)
MODEL = "openai/gpt-realtime"


@scenario()
def session():
    with client.realtime.connect(model=MODEL) as connection:
        connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        connection.response.create()
        seen = []
        for event in connection:
            seen.append(event.type)
            if event.type == "response.done":
                return {"first": seen[0], "tokens": event.response.usage.total_tokens}


@scenario()
def client_secret():
    secret = client.realtime.client_secrets.create(session={"type": "realtime", "model": MODEL})
    own = client.with_options(api_key=secret.value)
    with own.realtime.connect(model=MODEL) as connection:
        return {"prefix": secret.value[:3], "first": next(iter(connection)).type}


@scenario()
def error():
    with client.realtime.connect(model="openai/none") as connection:
        return next(iter(connection)).type


run_scenarios()
