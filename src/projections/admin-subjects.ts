/** Names of the subjects in the admin history: `key:<id>`, `user:<path>`, … */
import { type StreamName, streamName } from '../events/event.ts';

/** The kinds of subjects, each with the category of its streams. */
const categories = {
  key: 'key',
  user: 'user',
  'virtual-model': 'virtual-model',
  workflow: 'workflow',
  guardrail: 'guardrail',
  price: 'price',
  budget: 'budget',
  'rate-limit': 'rate-limit',
  credential: 'credential',
  settings: 'settings',
  provider: 'provider',
  view: 'views',
  audit: 'audit',
} as const;

export type SubjectKind = keyof typeof categories;

export interface Subject {
  readonly kind: SubjectKind;
  readonly id: string;
}

export const subjectKinds = Object.keys(categories) as readonly SubjectKind[];

/** Undefined when it names no subject. */
export function parseSubject(text: string): Subject | undefined {
  const colon = text.indexOf(':');
  const kind = subjectKinds.find((one) => one === text.slice(0, colon));
  const id = text.slice(colon + 1);
  return kind === undefined || id === '' ? undefined : { kind, id };
}

export function subjectText({ kind, id }: Subject): string {
  return `${kind}:${id}`;
}

export function streamOf({ kind, id }: Subject): StreamName {
  return streamName(categories[kind], id);
}

/** The inverse of `streamOf`. Undefined for streams that no administrator changes. */
export function subjectOf(stream: StreamName): Subject | undefined {
  for (const kind of subjectKinds) {
    const prefix = `${categories[kind]}-`;
    if (stream.startsWith(prefix)) return { kind, id: stream.slice(prefix.length) };
  }
  return undefined;
}
