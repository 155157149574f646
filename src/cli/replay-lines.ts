/** The result of a replay as lines for people. */
import { twoColumns } from './command.ts';
import type { ReplayReport } from './program-parts.ts';
import { count } from './quantity.ts';

export function replayLines(report: ReplayReport): string[] {
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
