/** Words and signs of replays. */
import type { Answer } from '../../api/client.ts';
import type { Tone } from '../../ui/status-badge.tsx';

export type Replay = Answer<'/admin/guardrails/replay/{id}'>;
export type ReplayResult = NonNullable<Replay['result']>;
export type ReplayVerdict = keyof ReplayResult['verdicts'];

export const statusTones: Readonly<Record<Replay['status'], Tone>> = {
  running: 'info',
  completed: 'ok',
  cancelled: 'plain',
  interrupted: 'warn',
  failed: 'bad',
};

/** From the strongest to the weakest. */
export const verdicts: readonly { readonly name: ReplayVerdict; readonly title: string; readonly tone: Tone }[] = [
  { name: 'blocked', title: 'blocked', tone: 'bad' },
  { name: 'failed', title: 'failed', tone: 'bad' },
  { name: 'responded', title: 'answered by a guardrail', tone: 'warn' },
  { name: 'warned', title: 'warned', tone: 'warn' },
  { name: 'changed', title: 'changed', tone: 'info' },
  { name: 'passed', title: 'passed', tone: 'ok' },
];

const reasons: Readonly<Record<string, string>> = {
  body_not_recorded: 'the body was not recorded',
  body_not_json: 'the body is not JSON',
  endpoint_not_read: 'guardrails do not read this endpoint',
  background_at_provider: 'a response in the background that the provider kept',
  refused: 'the gateway refused it before guardrails run',
  repeated: 'answered with the answer of an earlier request with the same idempotency key',
  incomplete: 'the answer is incomplete',
  answer_not_recorded: 'the answer was not recorded',
};

export function reasonTitle(reason: string): string {
  return reasons[reason] ?? reason.replaceAll('_', ' ');
}
