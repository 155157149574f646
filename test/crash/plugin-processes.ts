/** The processes of the plugin that the gateways of one run load, found by the folder of that plugin. */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Random } from './random.ts';

const run = promisify(execFile);
const BETWEEN_LOOKS_MS = 25;
/** A plugin's process notices within milliseconds that its gateway is gone; while it starts, when its code is loaded. */
const GONE_WITHIN_MS = 10_000;

export class PluginProcesses {
  readonly #folder = mkdtempSync(join(tmpdir(), 'chancery-birds-'));

  constructor() {
    copyFileSync(join(import.meta.dirname, 'bird-plugin.ts'), join(this.#folder, 'bird-plugin.ts'));
  }

  /** The variables that make a gateway load the plugin. */
  get env(): Record<string, string> {
    const plugins = [{ path: join(this.#folder, 'bird-plugin.ts'), required: true }];
    return { PLUGINS_ENABLED: 'true', PLUGINS: JSON.stringify(plugins) };
  }

  async pids(): Promise<number[]> {
    return (await this.#rows()).map((row) => Number.parseInt(row, 10));
  }

  /** Id, age, processor time and state of each. One that has ended and still has an entry has no command line. */
  async #rows(): Promise<string[]> {
    const { stdout } = await run('ps', ['-A', '-ww', '-o', 'pid=,etime=,time=,stat=,args=']);
    return stdout.split('\n').filter((line) => line.includes(this.#folder));
  }

  /** Kills the plugin at random moments until the time is over. @returns how often */
  async killWithin(ms: number, kills: number, chance: Random): Promise<number> {
    const moments = Array.from({ length: kills }, () => chance.between(0, ms)).toSorted((one, other) => one - other);
    const began = performance.now();
    let killed = 0;
    for (const moment of moments) {
      await sleep(Math.max(0, began + moment - performance.now()));
      for (const pid of await this.pids()) if (kill(pid)) killed += 1;
    }
    return killed;
  }

  /** Call it when no gateway runs. @returns the processes that outlive their gateway, as `ps` shows them; they are killed */
  async left(): Promise<string[]> {
    const deadline = performance.now() + GONE_WITHIN_MS;
    for (;;) {
      const rows = await this.#rows();
      if (rows.length === 0) return [];
      if (performance.now() > deadline) return rows.filter((row) => kill(Number.parseInt(row, 10)));
      await sleep(BETWEEN_LOOKS_MS);
    }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** @returns false when it has ended already */
function kill(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
