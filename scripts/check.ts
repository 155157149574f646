/**
 * `npm run check`: types of the gateway and of the dashboard, lint and format, the house rules about imports and exported
 * names, files and exports that nothing uses, waits of tests, generated documents, links and guarantees of documents, and no tracked file that .gitignore
 * excludes.
 * `--write` (`npm run format`) corrects what a tool can correct.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { apiDocumentPath, apiReference, servedApiDocument } from './api-document.ts';
import { installDashboardPackages } from './dashboard-build.mjs';
import { writeDashboardTypes } from './dashboard-types.ts';
import { documentViolations } from './documents.ts';
import { eventsDocument, eventsDocumentPath } from './events-document.ts';
import { sharedNameViolations } from './exported-names.ts';
import { houseRuleViolations } from './import-rules.ts';
import { unexplainedWaits } from './waits.ts';

const root = dirname(import.meta.dirname);
const write = process.argv.includes('--write');

interface Step {
  readonly name: string;
  /** Resolves to the problems; empty when there are none. */
  readonly run: () => Promise<string>;
}

const steps: readonly Step[] = [
  { name: 'types', run: () => tool('node_modules/typescript/bin/tsc', ['--project', '.']) },
  { name: 'types of the dashboard', run: dashboardTypes },
  { name: 'lint and format', run: () => tool('node_modules/@biomejs/biome/bin/biome', biomeArguments()) },
  { name: 'imports', run: async () => houseRuleViolations(root).join('\n') },
  { name: 'exported names', run: async () => sharedNameViolations(root).join('\n') },
  { name: 'unused files and exports', run: () => tool('node_modules/knip/bin/knip.js', ['--no-progress']) },
  { name: 'waits in tests', run: async () => unexplainedWaits(root).join('\n') },
  { name: 'docs/events.md', run: async () => checkGenerated(eventsDocumentPath, eventsDocument(root), 'docs:events') },
  {
    name: apiDocumentPath,
    run: async () => checkGenerated(apiDocumentPath, apiReference(await servedApiDocument()), 'docs:api'),
  },
  { name: 'links and guarantees of documents', run: async () => documentViolations(root).join('\n') },
  { name: 'tracked files', run: async () => ignoredButTracked() },
];

/** With the types of the API as the gateway now serves it. */
async function dashboardTypes(): Promise<string> {
  try {
    await installDashboardPackages(root);
  } catch (error) {
    return `the dashboard was not checked: ${error instanceof Error ? error.message : String(error)}`;
  }
  await writeDashboardTypes(root);
  return tool('node_modules/typescript/bin/tsc', ['--project', 'dashboard']);
}

function biomeArguments(): string[] {
  return ['check', ...(write ? ['--write'] : []), '--error-on-warnings', '--colors=off'];
}

function checkGenerated(file: string, wanted: string, script: string): string {
  const path = join(root, file);
  if (write) writeFileSync(path, wanted);
  return readIfThere(path) === wanted ? '' : `${file} is not what its source says: npm run ${script}`;
}

/** Files that `.gitignore` names but git tracks: for example caches that were committed by mistake. */
function ignoredButTracked(): string {
  if (!existsSync(join(root, '.git'))) return '';
  const listed = spawnSync('git', ['ls-files', '--cached', '--ignored', '--exclude-standard'], { cwd: root });
  return listed.error === undefined ? listed.stdout.toString().trim() : '';
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** Runs a tool of node_modules with this Node; resolves to its output when it fails. */
function tool(file: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [file, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    const output: Buffer[] = [];
    child.stdout.on('data', (piece: Buffer) => output.push(piece));
    child.stderr.on('data', (piece: Buffer) => output.push(piece));
    child.on('error', (error) => resolve(`${file}: ${error.message}`));
    child.on('close', (code) => {
      const printed = Buffer.concat(output).toString().trim();
      resolve(code === 0 ? '' : printed || `${file} exited with ${code}`);
    });
  });
}

let failed = 0;
for (const { name, run } of steps) {
  const started = performance.now();
  const wrong = await run();
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (wrong !== '') failed += 1;
  console.log(`${wrong === '' ? 'ok  ' : 'FAIL'}  ${name} (${seconds} s)`);
  if (wrong !== '') console.log(`\n${wrong}\n`);
}
console.log(failed === 0 ? 'check passed' : `check failed: ${failed} of ${steps.length}`);
process.exitCode = failed === 0 ? 0 : 1;
