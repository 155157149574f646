/** A start on a data folder whose log is missing, as when its volume is not mounted. */
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { someOf } from '../support/seed.ts';
import {
  ask,
  killAll,
  type ServedGateway,
  serve,
  startProcess,
  stopGateway,
  temporaryFolder,
} from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

describe.each(someOf(['1', '2']))('a start without the log of the data folder, with %s workers', (workers) => {
  it('ends with the reason and makes nothing; it starts with the log, or anew without views.db', async () => {
    const dataDir = join(folder.path, `workers-${workers}`);
    const [log, elsewhere, views] = ['log', 'elsewhere', 'views.db'].map((name) => join(dataDir, name)) as [
      string,
      string,
      string,
    ];
    const env = { LOG_URL: `file:${log}`, GATEWAY_WORKERS: workers };
    const first = await serve({ dataDir, env });
    const key: Answered = await (await ask(first.url, '/admin/auth-keys', { json: { name: 'k' } })).json();
    const use = async ({ url }: ServedGateway) => (await ask(url, '/v1/models', { key: key.value ?? '' })).status;
    expect(await use(first)).toBe(200);
    await stopGateway(first);

    renameSync(log, elsewhere);
    const refused = async () => {
      const second = startProcess({ env: { DATA_DIR: dataDir, ...env } });
      expect(await second.exited).toEqual({ code: 1, signal: null });
      expect(second.stdout).toBe('');
      expect(second.stderr).toBe(
        `The gateway could not start: there is no event log in ${log}, but ${views} was built from one. Make sure that ` +
          `its volume is mounted, or restore a backup; to begin a new, empty log, remove ${views}\n`,
      );
    };
    await refused();
    expect(existsSync(log)).toBe(false);
    // The place of a volume that is not mounted.
    mkdirSync(log);
    await refused();

    rmSync(log, { recursive: true });
    renameSync(elsewhere, log);
    const again = await serve({ dataDir, env });
    expect(await use(again)).toBe(200);
    await stopGateway(again);

    rmSync(log, { recursive: true });
    rmSync(views);
    const anew = await serve({ dataDir, env });
    expect(await use(anew)).toBe(401);
    await stopGateway(anew);
  }, 60_000);
});
