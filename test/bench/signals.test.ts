import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { descendantsOf } from '../../bench/servers/process-stat.ts';

const bench = fileURLToPath(new URL('../../bench/', import.meta.url));
const dataFolders = () => {
  const work = join(bench, '.work');
  return existsSync(work) ? readdirSync(work).filter((name) => name.startsWith('data-')) : [];
};

it('a benchmark that a signal ends leaves no process and no data folder behind', async () => {
  const before = new Set(dataFolders());
  const args = '--only chat-json --servers bare --connections 1 --rounds 1 --seconds 60'.split(' ');
  const child = spawn(process.execPath, [join(bench, 'run.ts'), ...args], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  // Upstreams, load generator and both pass-throughs.
  while (descendantsOf(pid).length < 5 || dataFolders().every((name) => before.has(name))) {
    expect(child.exitCode).toBeNull();
    // A time: between looks at other processes.
    await delay(20);
  }
  const started = descendantsOf(pid);
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
  const isThere = (each: number) => existsSync(`/proc/${each}`);
  // A time: between looks at other processes.
  for (let rest = started; rest.length > 0; rest = rest.filter(isThere)) await delay(20);
  expect(dataFolders().filter((name) => !before.has(name))).toEqual([]);
});
