/**
 * Conformance checkers for such an API, unchanged, against a gateway: once with a provider whose responses are
 * translated, once with a native one.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { root, temporaryFolder } from '../e2e/gateway-process.ts';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { hasThreeGuardrails } from '../support/three-guardrails.ts';

const { gateway } = withBothKinds();
const home = temporaryFolder();
afterAll(() => home.remove());

/** The output of a program. It gets this Node, a home of its own and nothing else of ours. */
function printed(file: string, ...args: string[]): Promise<string> {
  const child = spawn(process.execPath, [join(root, 'node_modules', file), ...args], {
    cwd: home.path,
    env: { HOME: home.path, PATH: process.env['PATH'] ?? '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const out: Buffer[] = [];
  const complaints: Buffer[] = [];
  child.stdout.on('data', (piece: Buffer) => out.push(piece));
  child.stderr.on('data', (piece: Buffer) => complaints.push(piece));
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => {
      if (out.length > 0) resolve(Buffer.concat(out).toString());
      else reject(new Error(`${file} said nothing but: ${Buffer.concat(complaints)}`));
    });
  });
}

const probed = z.object({
  coverage: z.object({ entries: z.array(z.object({ id: z.string(), tier: z.string(), supported: z.boolean() })) }),
  conformance: z.object({
    total: z.number(),
    bySurface: z.array(z.object({ surface: z.string(), passed: z.number(), total: z.number() })),
    results: z.array(
      z.object({
        id: z.string(),
        outcome: z.enum(['pass', 'fail', 'inconclusive', 'unsupported', 'unreachable', 'skipped']),
        reason: z.string().default(''),
        failures: z.array(
          z.object({ id: z.string(), label: z.string(), severity: z.string(), message: z.string().default('') }),
        ),
      }),
    ),
  }),
});

const scanned = z.object({
  compatible: z.boolean(),
  results: z.array(z.object({ id: z.string(), status: z.string(), summary: z.string() })),
});

/** The provider behind the gateway has no prompt cache. */
const UP_TO_THE_PROVIDER = new Set(
  ['chat', 'responses', 'messages'].flatMap((surface) => [`${surface}-cache-hit`, `${surface}-cache-prefix-hit`]),
);

/** This version of llmprobe sends the text `[object FormData]` for a form: its own fetch has another FormData class. */
const NEVER_ASKED = 'images-edit-accepts-multipart';

/** Checks that show nothing about the gateway, since the model behind it … */
const UNDECIDED = new Set([
  // … neither continues an answer that was begun, nor repeats it,
  'chat-assistant-prefill',
  'messages-assistant-prefill',
  // … does not follow a system prompt,
  'messages-system-blocks',
  // … and generates neither images nor sound, when it is a chat model on one's own machine.
  'images-generate',
  'images-edit',
  'audio-speech',
]);

const SURFACES = ['models', 'chat', 'responses', 'messages', 'count-tokens', 'embeddings', 'completions'];
/** Guardrails cannot read pictures and sounds: these endpoints are refused while they run. */
const SURFACES_OF_OPENAI = ['images', 'images-edit', 'audio-speech'];

/** The reason of a test that was not run since its path is a 404. */
const NOT_THERE = / not implemented$/;

/** Features that the provider lacks, or that llmprobe does not check. */
const NOT_OFFERED = /-rate-limit-headers$|-reasoning-roundtrip$|^responses-mcp-tools$/;

/** Refused while guardrails run: the provider would keep the answer and return it later, without them. */
const REFUSED_TO_GUARDED = 'responses-background';

const isRefused = (id: string) => hasThreeGuardrails() && id === REFUSED_TO_GUARDED;

describe.each(both)('with a provider that is %s', (kind, model) => {
  it('llmprobe finds every MUST fulfilled', async () => {
    const base = `${gateway.url}/v1`;
    const flags = ['--no-save', '--no-bench', '--full', '--json'];
    const text = await printed('llmprobe/bin/dist/llmprobe.mjs', base, '-k', MASTER_KEY, '-m', model, ...flags);
    const { coverage, conformance } = probed.parse(JSON.parse(text));
    const broken = conformance.results.flatMap(({ failures }) =>
      failures.filter(({ id, severity }) => severity === 'MUST' && !UP_TO_THE_PROVIDER.has(id) && id !== NEVER_ASKED),
    );
    expect(broken.map(({ id, label, message }) => `${id}: ${label} (${message})`)).toEqual([]);
    const ids = (outcome: string, but: (id: string) => boolean) =>
      conformance.results.filter((each) => each.outcome === outcome && !but(each.id)).map(({ id }) => id);
    expect(ids('unreachable', () => false)).toEqual([]);
    expect(ids('inconclusive', (id) => UNDECIDED.has(id))).toEqual([]);
    const absent = new Set(conformance.results.filter(({ reason }) => NOT_THERE.test(reason)).map(({ id }) => id));
    expect(ids('unsupported', (id) => NOT_OFFERED.test(id) || absent.has(id) || isRefused(id))).toEqual([]);
    expect(ids('skipped', (id) => absent.has(id))).toEqual([]);
    const missing = coverage.entries.filter(({ tier, supported }) => tier === 'core' && !supported);
    expect(missing).toEqual([]);
    expect(conformance.bySurface.map(({ surface }) => surface)).toEqual([
      ...SURFACES,
      ...(kind === 'native' && !hasThreeGuardrails() ? SURFACES_OF_OPENAI : []),
    ]);
    expect(conformance.total).toBeGreaterThanOrEqual(295);
  });

  it('compatcanary finds no defect', async () => {
    const flags = ['--profile', 'modern', '--format', 'json', '--fail-on', 'never', '--api-key', MASTER_KEY];
    const target = ['--base-url', `${gateway.url}/v1`, '--model', model];
    const text = await printed('compatcanary/src/cli.js', 'scan', ...target, ...flags);
    const { compatible, results } = scanned.parse(JSON.parse(text));
    expect(results.filter(({ status }) => status !== 'pass')).toEqual([]);
    expect(results.map(({ id }) => id)).toEqual([
      'models.list',
      'chat.basic',
      'chat.streaming',
      'chat.tool_call',
      'chat.structured_output',
      'responses.basic',
      'responses.streaming',
    ]);
    expect(compatible).toBe(true);
  });
});
