/** CPU time of three pure guardrails per chunk of a stream: `node bench/guardrails.ts`, through scripts/run.mjs. */
import { guardedEvents } from '../src/commands/guardrails/events/guarded-dialects.ts';
import type { GuardrailStep } from '../src/commands/guardrails/phases/guardrail-step.ts';
import { StreamPhase } from '../src/commands/guardrails/phases/stream-phase.ts';
import { Placeholders } from '../src/commands/guardrails/placeholders.ts';
import { guardrailTypeNamed } from '../src/commands/guardrails/types/known-types.ts';
import { guardrailsOfBenchmark } from './guardrails-of-benchmark.ts';

const chunks = 20_000;

const none = () => Promise.reject(new Error('no server and no model in this benchmark'));

function step(type: string, number: number, config: object): GuardrailStep {
  const known = guardrailTypeNamed(type);
  if (known === undefined) throw new Error(`there is no type ${type}`);
  const read = known.read(config);
  if (!read.ok) throw new Error(read.problem);
  const guardrail = read.compile({ name: type, userPath: undefined, callModel: none, fetch: none });
  return { name: type, type, step: number, failMode: 'closed', timeoutMs: 0, mutating: known.mutating, guardrail };
}

const steps = guardrailsOfBenchmark.map(({ type, config }, number) => step(type, number, config));

const words =
  'The quarterly report says that 12 of our 40 customers, for example jane@example.com, paid 415-555-2671 late. '.split(
    /(?<= )/,
  );

function run(count: number): number {
  const placeholders = new Placeholders();
  placeholders.placeholderOf('EMAIL', 'joe@example.org');
  const context = {
    ...{ requestId: 'r', userPath: '/', model: 'm', provider: 'p', labels: [], now: new Date() },
    ...{ signal: new AbortController().signal, placeholders },
  };
  const events = guardedEvents('chat', new StreamPhase(steps, context), placeholders);
  const started = process.cpuUsage();
  for (let index = 0; index < count; index += 1) {
    const content = words[index % words.length];
    events.events({
      id: 'c',
      object: 'chat.completion.chunk',
      choices: [{ index: 0, delta: { content }, finish_reason: null }],
    });
  }
  events.finish();
  const { user, system } = process.cpuUsage(started);
  return (user + system) / count;
}

run(chunks);
const figures = Array.from({ length: 5 }, () => run(chunks)).sort((one, other) => one - other);
console.log(
  `three pure guardrails: ${figures[2]?.toFixed(1)} µs CPU per chunk (median of 5 rounds of ${chunks} chunks)`,
);
