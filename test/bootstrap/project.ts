/** A project of its own in a temporary folder, with our scripts and a stand-in for npm. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const scripts = join(import.meta.dirname, '..', '..', 'scripts');

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Project {
  readonly root: string;

  constructor() {
    this.root = mkdtempSync(join(tmpdir(), 'chancery-bootstrap-'));
    mkdirSync(join(this.root, 'scripts'));
    for (const name of readdirSync(scripts).filter((file) => file.endsWith('.mjs'))) {
      copyFileSync(join(scripts, name), join(this.root, 'scripts', name));
    }
    this.write('package.json', '{"type":"module"}');
    this.write('package-lock.json', '{"packages":{"":{}}}');
  }

  write(path: string, content: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    writeFileSync(join(this.root, path), content);
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), 'utf8');
  }

  has(path: string): boolean {
    return existsSync(join(this.root, path));
  }

  /**
   * Puts a stand-in for npm in place, which records its calls in `npm-calls` and then runs `work`
   * (JavaScript; `node()` installs a Node that is not the one running, so that there is a wrapper).
   */
  standInForNpm(work: string): void {
    this.write(
      'npm-cli.cjs',
      `const fs = require('node:fs');
       fs.appendFileSync(${JSON.stringify(join(this.root, 'npm-calls'))}, process.argv.slice(2).join(' ') + '\\n');
       fs.mkdirSync('node_modules/node/bin', { recursive: true });
       function node() { ${this.#writeNode()} }
       ${work}`,
    );
  }

  npmCalls(): string[] {
    return this.has('npm-calls') ? this.read('npm-calls').trim().split('\n') : [];
  }

  /** JavaScript that writes a node_modules/node/bin/node which hands over to the Node of this test run. */
  #writeNode(): string {
    const script = `#!/bin/sh\nexec "${process.execPath}" "$@"\n`;
    return `fs.writeFileSync('${join(this.root, 'node_modules/node/bin/node')}', ${JSON.stringify(script)}, { mode: 0o755 });`;
  }

  /** As after `npm ci`: a Node is there. */
  installNode(): void {
    this.write('node_modules/node/bin/node', `#!/bin/sh\nexec "${process.execPath}" "$@"\n`);
    chmodSync(join(this.root, 'node_modules/node/bin/node'), 0o755);
    this.write('node_modules/.package-lock.json', '{"packages":{}}');
  }

  /** The environment of its scripts: npm is the stand-in. */
  env(): Record<string, string> {
    return { PATH: process.env['PATH'] ?? '', npm_execpath: join(this.root, 'npm-cli.cjs') };
  }

  start(args: readonly string[], env: Record<string, string> = {}): ChildProcess {
    return spawn(process.execPath, ['scripts/run.mjs', ...args], {
      cwd: this.root,
      env: { ...this.env(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
    return ended(this.start(args, env));
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

export async function ended(child: ChildProcess): Promise<Ended> {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (piece) => {
    stdout += piece;
  });
  child.stderr?.on('data', (piece) => {
    stderr += piece;
  });
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout, stderr };
}

/** Resolves once the child has printed `text`. */
export async function printed(child: ChildProcess, text: string): Promise<void> {
  let seen = '';
  for await (const piece of child.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    seen += piece;
    if (seen.includes(text)) return;
  }
  throw new Error(`ended without printing "${text}", but: ${seen}`);
}
