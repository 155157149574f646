import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { EmbeddedLog } from '../../../src/events/embedded/embedded-log.ts';
import { openViewStore, viewsFile } from '../../../src/projections/view-store.ts';
import { removeViewsOfMissingReplica } from '../../../src/wiring/log/event-log.ts';
import { temporaryFolder } from '../../e2e/gateway-process.ts';

let dataDir: string;
let folder: string;
let temporary: ReturnType<typeof temporaryFolder>;

beforeEach(() => {
  temporary = temporaryFolder();
  dataDir = temporary.path;
  folder = join(dataDir, 'log');
  openViewStore(viewsFile(dataDir)).close();
  writeFileSync(`${viewsFile(dataDir)}-wal`, '');
});
afterEach(() => temporary.remove());

const views = () => ['', '-wal'].map((suffix) => existsSync(viewsFile(dataDir) + suffix));

test('projections of a replica that is made anew are removed', () => {
  removeViewsOfMissingReplica({ dataDir, folder });
  expect(views()).toEqual([false, false]);
});

test('projections of an empty folder are removed, also without any', () => {
  mkdirSync(folder);
  removeViewsOfMissingReplica({ dataDir, folder });
  removeViewsOfMissingReplica({ dataDir, folder });
  expect(views()).toEqual([false, false]);
});

test('projections beside a replica are kept', async () => {
  await (await EmbeddedLog.open(folder, { replica: true })).close();
  removeViewsOfMissingReplica({ dataDir, folder });
  expect(views()).toEqual([true, true]);
  rmSync(folder, { recursive: true });
  removeViewsOfMissingReplica({ dataDir, folder });
  expect(views()).toEqual([false, false]);
});
