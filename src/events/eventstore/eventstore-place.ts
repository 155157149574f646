/**
 * A place in `$all` as text that sorts: `<commit>-<prepare>-<check>` of an event of this log, after which reading begins,
 * and, when calls were incomplete, `/` and the same of the event that was read last, and those calls:
 * `,<sender>-<number>:<next>:<since>:<latest>`. The check is the start of the event's id, by which the event is recognised on a
 * server that was restored from a backup and written again.
 */
import type { EnginePlace } from '../replicated/engine.ts';

export interface EventPlace {
  readonly commit: bigint;
  readonly prepare: bigint;
  /** The first 8 digits of the event's id. */
  readonly check: string;
}

/** A call of which events are missing. */
export interface IncompleteCall {
  readonly sender: string;
  readonly number: number;
  /** Index of the first event that is needed. */
  readonly next: number;
  /** Position after which the events that are needed lie. */
  readonly since: bigint;
  /** Position of its latest event. */
  readonly latest: bigint;
}

export interface ResumePlace {
  readonly after: EventPlace;
  /** The event that was read last. */
  readonly readTo: EventPlace;
  readonly calls: readonly IncompleteCall[];
}

/** Before the first event. */
export const beginning: EventPlace = { commit: 0n, prepare: 0n, check: '00000000' };

export function isBeginning({ commit }: EventPlace): boolean {
  return commit === 0n;
}

/** A place without incomplete calls. */
export function resumeAfter(after: EventPlace): ResumePlace {
  return { after, readTo: after, calls: [] };
}

export function formatPlace({ after, readTo, calls }: ResumePlace): EnginePlace {
  if (calls.length === 0) return textOf(after);
  const list = calls.map(
    ({ sender, number, next, since, latest }) => `,${sender}-${number}:${next}:${since}:${latest}`,
  );
  return `${textOf(after)}/${textOf(readTo)}${list.join('')}`;
}

/** Undefined when the text is no place of this engine. */
export function parsePlace(place: EnginePlace): ResumePlace | undefined {
  const form = /^(\d{20}-\d{20}-[0-9a-f]{8})(?:\/(\d{20}-\d{20}-[0-9a-f]{8})((?:,\w+-\d+:\d+:\d+:\d+)+))?$/;
  const [, start, end, list = ''] = form.exec(place) ?? [];
  if (start === undefined) return undefined;
  const calls = [...list.matchAll(/,(\w+)-(\d+):(\d+):(\d+):(\d+)/g)].map((found) => {
    const [, sender = '', number, next, since = '', latest = ''] = found;
    return { sender, number: Number(number), next: Number(next), since: BigInt(since), latest: BigInt(latest) };
  });
  return { after: eventPlaceOf(start), readTo: eventPlaceOf(end ?? start), calls };
}

function textOf({ commit, prepare, check }: EventPlace): string {
  return `${String(commit).padStart(20, '0')}-${String(prepare).padStart(20, '0')}-${check}`;
}

function eventPlaceOf(text: string): EventPlace {
  const [commit = '', prepare = '', check = ''] = text.split('-');
  return { commit: BigInt(commit), prepare: BigInt(prepare), check };
}
