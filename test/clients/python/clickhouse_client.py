"""clickhouse-connect, unchanged, as an analyst."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import clickhouse_connect
from scenarios import raised, run_scenarios, scenario

HOST, PORT = os.environ["CLICKHOUSE_ADDRESS"].split(":")


def connected(**more):
    return clickhouse_connect.get_client(
        host=HOST,
        port=int(PORT),
        username="analyst",
        password=os.environ["CLICKHOUSE_PASSWORD"],
        database="shop",
        **more,
    )


# As it is by default: each request names the session of the client.
client = connected()


@scenario()
def query():
    result = client.query("SELECT id, name, at FROM items ORDER BY id")
    rows = [[value.isoformat() if isinstance(value, datetime) else value for value in row] for row in result.result_rows]
    return {"columns": list(result.column_names), "rows": rows}


@scenario()
def parameters():
    result = client.query(
        "SELECT name FROM items WHERE id = {id: UInt32} AND name != {name: String}", parameters={"id": 2, "name": "it's"}
    )
    return result.first_row


@scenario()
def command():
    return client.command("SELECT count() FROM items")


@scenario()
def streamed():
    with client.query_row_block_stream("SELECT number FROM numbers(100000)") as stream:
        return sum(row[0] for block in stream for row in block)


@scenario("lz4", "zstd", "gzip", "none")
def compressed(method):
    by = connected(compress=False if method == "none" else method)
    return len(by.query("SELECT number, toString(number) FROM numbers(20000)").result_rows)


@scenario()
def at_once():
    without_session = connected(autogenerate_session_id=False)
    with ThreadPoolExecutor(4) as pool:
        return sorted(pool.map(lambda n: without_session.command(f"SELECT {n}"), range(4)))


@scenario()
def counted():
    result = client.query("SELECT number FROM numbers(7)", settings={"wait_end_of_query": "1"})
    return {"rows": len(result.result_rows), "told": result.summary["result_rows"]}


@scenario()
def raw():
    return client.raw_query("SELECT id FROM items ORDER BY id", fmt="CSV").decode()


@scenario()
def errors():
    return {
        "syntax": raised(lambda: client.query("SELEC 1")),
        "table": raised(lambda: client.query("SELECT * FROM nothing")),
        "insert": raised(lambda: client.insert("items", [[3, "new", datetime(2026, 1, 1)]], column_names=["id", "name", "at"])),
        "drop": raised(lambda: client.command("DROP TABLE items")),
        "password": raised(lambda: clickhouse_connect.get_client(host=HOST, port=int(PORT), username="analyst", password="wrong")),
    }


run_scenarios()
