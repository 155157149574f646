/** `chancery analytics setup`: creates the account of analysts on the ClickHouse server, and checks its rights. */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Config } from '../config/config.ts';
import { allowedNames, analystAccount, refusedQueries } from '../http/clickhouse/engine-access.ts';
import { writeToServer } from './writing-access.ts';

/** The message names the missing setting. */
class NoAnalyticsServer extends Error {
  readonly code = 'analytics_setup';
}

export interface SetupOptions {
  /** The account that may manage access. Default: the user that writes. */
  readonly admin?: { readonly user: string; readonly password: string } | undefined;
  /** Called with each statement and each check, without passwords. */
  readonly onStep: (step: string) => void;
}

/** ClickHouse's codes for missing rights: 497 has no grant, 164 only reads, 164 and 392 no table function. */
const refusals = new Set(['164', '392', '497']);

/** Resolves to the account's forbidden rights: empty when there are none. @throws NoAnalyticsServer, ClickHouseError */
export async function setUpAnalyst({ analytics }: Config, { admin, onStep }: SetupOptions): Promise<readonly string[]> {
  const { url, user, password = '', database, analyst } = analytics.clickhouse;
  if (url === undefined) {
    throw new NoAnalyticsServer(
      'CLICKHOUSE_URL is not set: the embedded ClickHouse creates the user "analyst" itself; no setup is needed',
    );
  }
  if (analyst === undefined) {
    throw new NoAnalyticsServer('set CLICKHOUSE_ANALYST_USER and CLICKHOUSE_ANALYST_PASSWORD to the account to create');
  }
  const managing = writeToServer({ url, ...(admin ?? { user, password }) });
  try {
    const server = {
      settings: await namesOf(managing.client, 'SELECT name FROM system.settings', allowedNames.settings),
      systemTables: await namesOf(
        managing.client,
        "SELECT name FROM system.tables WHERE database = 'system'",
        allowedNames.systemTables,
      ),
    };
    for (const { text, shown } of analystAccount({ ...analyst, database }, server)) {
      onStep(shown);
      await managing.client.command({ query: text });
    }
  } finally {
    await managing.close();
  }
  const asking = writeToServer({ url, ...analyst });
  try {
    await asking.client.command({ query: 'SELECT 1' });
    onStep(`-- ${analyst.user} may connect`);
    const allowed: string[] = [];
    for (const query of refusedQueries) {
      const isRefused = await refuses(asking.client, query);
      onStep(`-- ${analyst.user} ${isRefused ? 'is refused' : 'MAY RUN'}: ${query}`);
      if (!isRefused) allowed.push(query);
    }
    return allowed;
  } finally {
    await asking.close();
  }
}

async function namesOf(
  client: ClickHouseClient,
  query: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  const result = await client.query({ query, format: 'TabSeparated' });
  const there = new Set((await result.text()).split('\n'));
  return new Set(names.filter((name) => there.has(name)));
}

async function refuses(client: ClickHouseClient, query: string): Promise<boolean> {
  try {
    await client.command({ query });
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && refusals.has(String(error.code));
  }
}
