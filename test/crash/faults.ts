/** Rounds in which a segment is missing, the disk is full or syncs fail, with the guarantees that hold then. */
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { Watermark } from '../../src/events/embedded/watermark.ts';
import { openLog } from '../../src/events/open-log.ts';
import { ask, type ProcessOptions, type ServedGateway, serve, startProcess } from '../e2e/gateway-process.ts';
import { main } from '../support/main-program.ts';
import { Acknowledged, logUrl, recovers } from './acknowledged.ts';
import type { Violation } from './evidence.ts';
import type { Random } from './random.ts';

export const faults = ['missing segment', 'full disk', 'failing sync'] as const;
export type Fault = (typeof faults)[number];

const NOWHERE = 'http://127.0.0.1:9';

/** The disk under a gateway's log, of which operations can be made to fail from outside. */
export class FailingDisk {
  readonly #control = join(mkdtempSync(join(tmpdir(), 'chancery-disk-')), 'fails');

  /** How a gateway is started on it. */
  get options(): Pick<ProcessOptions, 'command'> & { readonly env: Record<string, string> } {
    const preload = pathToFileURL(join(import.meta.dirname, 'failing-disk.ts')).href;
    return { command: [process.execPath, '--import', preload, main, 'serve'], env: { FAILING_DISK: this.#control } };
  }

  fail(kind: 'full' | 'sync' | undefined): void {
    writeFileSync(this.#control, kind ?? '');
  }

  remove(): void {
    rmSync(join(this.#control, '..'), { recursive: true, force: true, maxRetries: 5 });
  }
}

export interface FaultRound {
  readonly dataDir: string;
  readonly disk: FailingDisk;
  readonly chance: Random;
  readonly complain: (violation: Violation) => void;
  /** Kills the gateway and starts another one on the same folder. */
  readonly restart: () => Promise<ServedGateway>;
}

/** A full disk: 503 `log_unavailable` with `Retry-After` and nothing acknowledged, and recovery without a restart. */
export async function fillDisk(gateway: ServedGateway, round: FaultRound): Promise<void> {
  const acknowledged = new Acknowledged(round.dataDir);
  await acknowledged.begin();
  await acknowledged.ask(gateway.url);
  round.disk.fail('full');
  try {
    for (let n = round.chance.between(1, 6); n > 0; n--) {
      const answer = await acknowledged.ask(gateway.url);
      if (answer.status !== 503 || answer.code !== 'log_unavailable' || answer.retryAfter === null) {
        round.complain({ check: 'full disk', what: `answered ${JSON.stringify(answer)}` });
      }
    }
  } finally {
    round.disk.fail(undefined);
  }
  await recovers('full disk', gateway, acknowledged, round);
  await acknowledged.check('full disk', round);
}

/** Syncs that fail: every answer that was whole is on record, also when the gateway is killed meanwhile. */
export async function failSyncs(gateway: ServedGateway, round: FaultRound): Promise<ServedGateway> {
  const { chance, disk } = round;
  const acknowledged = new Acknowledged(round.dataDir);
  await acknowledged.begin();
  const asking = new AbortController();
  const clients = Array.from({ length: 6 }, async () => {
    while (!asking.signal.aborted) {
      // a killed gateway answers nothing
      if ((await acknowledged.ask(gateway.url)).status === undefined) return;
    }
  });
  await sleep(chance.between(20, 200));
  disk.fail('sync');
  await sleep(chance.between(20, 600));
  let now = gateway;
  if (chance.happens(0.5)) {
    // some of them in the middle of the repair
    if (chance.happens(0.5)) disk.fail(undefined);
    await sleep(chance.between(0, 260));
    gateway.process.kill('SIGKILL');
    await gateway.process.exited;
    disk.fail(undefined);
    now = await round.restart();
  }
  disk.fail(undefined);
  asking.abort();
  await Promise.all(clients);
  await recovers('failing sync', now, acknowledged, round);
  await acknowledged.check('failing sync', round);
  return now;
}

/**
 * On a copy of the folder: without its newest segment, or without all, the log is refused with the names of what is
 * missing, `log accept-loss` records the loss, and the gateway continues after the lost positions.
 */
export async function loseSegments(round: FaultRound, settings: Record<string, string>): Promise<void> {
  // exchanges that the copy takes up again must not reach the providers whose calls are checked
  const env = { ...settings, LLAMACPP_BASE_URL: NOWHERE, OPENAI_BASE_URL: NOWHERE };
  const complain = (what: string) => round.complain({ check: 'missing segment', what });
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-lost-'));
  const dir = join(dataDir, 'log');
  try {
    cpSync(join(round.dataDir, 'log'), dir, { recursive: true });
    // events behind the watermark had not been acknowledged as being on disk
    const acknowledged = Watermark.find(nodeDisk, dir)?.position ?? 0;
    const removed = removeSegments(dir, round.chance.happens(0.2));
    if (removed === undefined || Number(removed) > acknowledged) return;
    const start = startProcess({ env: { ...env, DATA_DIR: dataDir } });
    const { code } = await start.exited;
    const printed = start.stdout + start.stderr;
    for (const text of ['is incomplete', removed, 'chancery log accept-loss']) {
      if (code !== 1 || !printed.includes(text)) complain(`without ${removed} it ended with ${code}:\n${printed}`);
    }
    if ((await checkLog(dir)).problem === undefined) complain(`log check finds nothing wrong without ${removed}`);
    await accept(dataDir, complain);
    const gateway = await serve({ dataDir, env });
    // one that is recorded and reaches no provider
    const { status } = await ask(gateway.url, '/v1/chat/completions', {
      json: { model: 'nowhere/none', messages: [] },
    });
    if (status >= 500) complain(`after the loss was accepted a request was answered with ${status}`);
    gateway.process.kill('SIGTERM');
    await gateway.process.exited;
    const { problem } = await checkLog(dir);
    if (problem !== undefined) complain(`log check after the loss was accepted: ${problem.reason}`);
    await checkAfter(dataDir, acknowledged, complain);
  } finally {
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Removes the newest segment that has events, or all; returns the name of the first one. */
function removeSegments(dir: string, all: boolean): string | undefined {
  const files = readdirSync(dir).filter((file) => /^\d{16}\./.test(file));
  const names = [...new Set(files.map((file) => file.slice(0, 16)))].toSorted();
  const filled = names.filter((name) =>
    files.some((file) => file.startsWith(name) && statSync(join(dir, file)).size > 0),
  );
  const from = all ? filled[0] : filled.at(-1);
  if (from === undefined) return undefined;
  for (const file of files) if (file.slice(0, 16) >= from) rmSync(join(dir, file));
  return from;
}

async function accept(dataDir: string, complain: (what: string) => void): Promise<void> {
  const command = [process.execPath, main, 'log', 'accept-loss', '--reason', 'crash test'] as const;
  const accepting = startProcess({ command: [...command], env: { DATA_DIR: dataDir } });
  const { code } = await accepting.exited;
  if (code !== 0) complain(`log accept-loss ended with ${code}:\n${accepting.stdout}${accepting.stderr}`);
}

/** Events after the loss have positions of their own. */
async function checkAfter(dataDir: string, last: number, complain: (what: string) => void): Promise<void> {
  const log = await openLog(logUrl(dataDir), { readOnly: true });
  try {
    let accepted = 0;
    for await (const { type, position } of log.readAll()) {
      if (type === 'log.loss_accepted') accepted = Number(position);
    }
    if (accepted <= last)
      complain(`the loss is recorded at ${accepted}, and there had been acknowledged events up to ${last}`);
  } finally {
    await log.close();
  }
}
