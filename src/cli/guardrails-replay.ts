/**
 * `chancery guardrails replay`: exits with 0 when the run is complete, with 1 when the draft is refused, the run failed or
 * it was stopped; the result so far is printed then too.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import { isObject } from '../json/is-object.ts';
import { type AdminApi, adminApi, configuredKey, problemText, withAnswers } from './admin-api.ts';
import { type ParsedArguments, twoColumns, UsageError } from './command.ts';
import type { ProgramParts, ReplayReport } from './program-parts.ts';
import { complain, count, progressOn, type Terminal, writeLine } from './terminal.ts';

/** Runs the draft in this process. */
export async function guardrailsReplay(
  args: ParsedArguments,
  log: EventLog,
  config: Config,
  parts: Pick<ProgramParts, 'replayGuardrails' | 'cwd'>,
  terminal: Terminal,
): Promise<number> {
  for (const flag of ['sample', 'max-cost']) {
    if (args.values[flag === 'sample' ? 'sample' : 'maxCost'] !== undefined) {
      throw new UsageError(`--${flag} needs --gateway: models and servers are called by a gateway`);
    }
  }
  const body = bodyOf(args, parts.cwd);
  const progress = progressOn(terminal);
  const { signal } = terminal;
  const onProgress = (done: number) => progress.show(() => percent(done));
  const report = await parts.replayGuardrails(config, log, { body, signal, onProgress }).finally(progress.clear);
  if ('problem' in report) {
    complain(terminal, problemText(report.problem, report.param));
    return 1;
  }
  await show(report, args, terminal);
  if (!signal.aborted) return 0;
  complain(terminal, `stopped after ${report.requests} requests`);
  return 1;
}

const POLL_MS = 250;

/** A run as the admin API returns it. */
interface RemoteRun {
  readonly status: string;
  readonly error?: string;
  readonly progress?: { readonly stage: string; readonly done: number };
  readonly result?: ReplayReport;
  readonly links: { readonly self: string };
}

/** Lets the gateway at this address run the draft. Ctrl-C cancels the run. */
export async function guardrailsReplayAt(
  gateway: string,
  args: ParsedArguments,
  parts: Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes' | 'masterKey'>,
  terminal: Terminal,
): Promise<number> {
  const body = bodyOf(args, parts.cwd);
  const configured = await configuredKey(args, parts, terminal);
  if (configured === undefined) return 1;
  const api = adminApi(gateway, configured.key);
  const call = async (...request: Parameters<AdminApi>): Promise<RemoteRun | string> => {
    const answer = await api(...request);
    return 'problem' in answer ? answer.problem : (answer.json as RemoteRun);
  };
  return withAnswers(gateway, terminal, () => follow(call, body, args, terminal));
}

async function follow(
  call: (method: string, path: string, sent?: unknown) => Promise<RemoteRun | string>,
  body: unknown,
  args: ParsedArguments,
  terminal: Terminal,
): Promise<number> {
  let run = await call('POST', '/admin/guardrails/replay', body);
  const progress = progressOn(terminal);
  const { signal } = terminal;
  while (typeof run !== 'string' && run.status === 'running' && !signal.aborted) {
    const { stage, done } = run.progress ?? { stage: 'running', done: 0 };
    progress.show(() => `${stage === 'estimating' ? 'estimating the cost' : 'running'}, ${percent(done)}`);
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
    if (!signal.aborted) run = await call('GET', run.links.self);
  }
  if (typeof run !== 'string' && run.status === 'running') run = await call('DELETE', run.links.self);
  progress.clear();
  if (typeof run === 'string') {
    complain(terminal, run);
    return 1;
  }
  const { status, error, result } = run;
  if (result !== undefined) await show(result, args, terminal);
  if (status === 'completed') return 0;
  complain(terminal, `the run is ${status}${error === undefined ? '' : `: ${error}`}`);
  return 1;
}

/** The body of `POST /admin/guardrails/replay`. @throws UsageError */
function bodyOf({ values }: ParsedArguments, cwd: string): Record<string, unknown> {
  const { workflow: file, from, to, userPath } = values;
  if (file === undefined) throw new UsageError('--workflow is missing');
  if (from === undefined) throw new UsageError('--from is missing');
  const draft = jsonIn(resolve(cwd, file), file);
  return {
    ...('workflow' in draft ? draft : { workflow: draft }),
    from,
    ...(to !== undefined && { to }),
    ...(userPath !== undefined && { user_path: userPath }),
    ...numberIn(values, 'maxRequests', 'max-requests', 'max_requests'),
    ...numberIn(values, 'sample', 'sample', 'sample'),
    ...numberIn(values, 'maxCost', 'max-cost', 'max_cost'),
  };
}

function jsonIn(path: string, file: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(
      `--workflow: ${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  try {
    const json: unknown = JSON.parse(text);
    if (isObject(json)) return json;
  } catch {
    // Below.
  }
  throw new UsageError(`--workflow: ${file} is not a JSON object`);
}

/** @throws UsageError */
function numberIn(values: ParsedArguments['values'], name: string, flag: string, member: string) {
  const text = values[name];
  if (text === undefined) return {};
  const number = Number(text);
  if (text.trim() === '' || !Number.isFinite(number))
    throw new UsageError(`--${flag}: expected a number, got "${text}"`);
  return { [member]: number };
}

async function show(report: ReplayReport, { switches }: ParsedArguments, terminal: Terminal): Promise<void> {
  // Also after Ctrl-C.
  const shown = { ...terminal, signal: new AbortController().signal };
  const lines = switches.has('json') ? [JSON.stringify(report)] : replayLines(report);
  for (const line of lines) await writeLine(shown, line);
}

function percent(done: number): string {
  return `${Math.floor(done * 100)} %`;
}

/** The result of a replay as lines for people. */
function replayLines(report: ReplayReport): string[] {
  const { requests, verdicts, guardrails, examples, sample, truncated_at: truncatedAt } = report;
  const rows: (readonly [string, string])[] = [
    ...counted(verdicts),
    ...prefixed('not evaluated', report.not_evaluated),
    ...prefixed('answer not evaluated', report.answers_not_evaluated),
    ...(report.other_workflow > 0 ? [['of another workflow', String(report.other_workflow)] as const] : []),
    ...(report.without_earlier_turns > 0
      ? [['without earlier turns', String(report.without_earlier_turns)] as const]
      : []),
  ];
  return [
    count(requests, 'request'),
    ...block(rows),
    ...(guardrails.length === 0 ? [] : ['', 'Guardrails']),
    ...block(guardrails.map((one) => [`${one.guardrail} (${one.phase})`, figures(one)] as const)),
    ...(examples.length === 0 ? [] : ['', 'Examples']),
    ...block(
      examples.map(({ verdict, exchange_id: id, guardrail, phase, code }) => {
        const why = [guardrail, phase, code].filter((part) => part !== undefined).join(', ');
        return [`exchange-${id}`, why === '' ? verdict : `${verdict}: ${why}`] as const;
      }),
    ),
    ...(sample === undefined ? [] : ['', sampleLine(sample)]),
    ...(truncatedAt === undefined ? [] : ['', `There are more requests: continue with --from ${truncatedAt}`]),
  ];
}

function block(rows: readonly (readonly [string, string])[]): string[] {
  return rows.length === 0 ? [] : twoColumns(rows.map(([left, right]) => [`  ${left}`, right] as const)).split('\n');
}

function counted(counts: Readonly<Record<string, number>>): (readonly [string, string])[] {
  return Object.entries(counts).map(([name, number]) => [name, String(number)]);
}

function prefixed(what: string, counts: Readonly<Record<string, number>>): (readonly [string, string])[] {
  return counted(counts).map(([name, number]) => [`${what}: ${name}`, number]);
}

function figures({
  runs,
  verdicts,
  edited,
  average_ms: average,
  longest_ms: longest,
}: ReplayReport['guardrails'][number]) {
  const found = Object.entries(verdicts).filter(([name, number]) => name !== 'allow' && number > 0);
  const parts = [
    count(runs, 'run'),
    ...found.map(([name, number]) => `${number} ${name}`),
    ...(edited > 0 ? [`${edited} changed`] : []),
    `${average} ms on average, ${longest} ms at most`,
  ];
  return parts.join(', ');
}

function sampleLine({ state, evaluated, calls, estimated_cost, cost }: NonNullable<ReplayReport['sample']>): string {
  const dollars = (amount: number | null) => (amount === null ? 'unknown' : `$${amount}`);
  const price = `estimated cost ${dollars(estimated_cost)}`;
  switch (state) {
    case 'not_requested':
      return 'Guardrails that call a model or a server did not run: no sample was requested.';
    case 'evaluated':
      return `Sample: ${count(evaluated, 'request')}, ${count(calls, 'call')} of models, ${price}, cost ${dollars(cost)}`;
    default:
      return `Guardrails that call a model or a server did not run: ${state.replaceAll('_', ' ')}, ${price}`;
  }
}
