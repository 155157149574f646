/** An event as `GET /admin/audit/events` returns it, and its members by kind. */
export interface RecordedEvent {
  readonly id: string;
  readonly type: string;
  readonly schema: number;
  readonly stream: string;
  readonly revision: string;
  readonly position: string;
  /** ISO 8601 with microseconds. */
  readonly at: string;
  readonly actor: string;
  readonly user_path?: string | undefined;
  readonly request_id?: string | undefined;
  readonly causation_id?: string | undefined;
  readonly correlation_id?: string | undefined;
  readonly traceparent?: string | undefined;
  readonly data: Members;
  readonly body?: string | undefined;
  readonly body_base64?: string | undefined;
  readonly body_bytes?: number | undefined;
  readonly body_cut?: true | undefined;
  readonly body_withheld?: true | undefined;
}

export interface RelatedLink {
  readonly relation: 'recorded_with' | 'caused';
  readonly id: string;
  readonly stream: string;
  readonly type: string;
  readonly revision: string;
  readonly position: string;
  readonly at: string;
}

/** `data` of an event: a later version of the gateway may have other members. */
export type Members = Readonly<Record<string, unknown>>;

export function textOf(members: Members, name: string): string | undefined {
  const value = members[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function numberOf(members: Members, name: string): number | undefined {
  const value = members[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

export function textsOf(members: Members, name: string): readonly string[] {
  const value = members[name];
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

export function membersOf(members: Members, name: string): Members | undefined {
  return asMembers(members[name]);
}

export function listOf(members: Members, name: string): readonly Members[] {
  const value = members[name];
  if (!Array.isArray(value)) return [];
  return value.map(asMembers).filter((one) => one !== undefined);
}

function asMembers(value: unknown): Members | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : undefined;
}

/** Milliseconds since the epoch, with microseconds as a fraction. */
export function timeOf({ at }: Pick<RecordedEvent, 'at'>): number {
  const micros = /\.\d{3}(\d{3})Z$/.exec(at)?.[1] ?? '0';
  return Date.parse(at) + Number(micros) / 1000;
}

/** The types of the events that end an exchange. */
const ends: ReadonlySet<string> = new Set([
  'request.refused',
  'exchange.completed',
  'exchange.failed',
  'client.disconnected',
]);

export function isEnd({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return ends.has(type);
}

/** Pieces of an answer: most events of a stream. */
export function isPiece({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return type === 'chunk.received' || type === 'frame.delivered';
}

/** Events in their order; those that are read twice count once. */
export function withEvents(before: readonly RecordedEvent[], more: readonly RecordedEvent[]): readonly RecordedEvent[] {
  const last = before.at(-1);
  const later = last === undefined ? more : more.filter(({ revision }) => Number(revision) > Number(last.revision));
  return later.length === 0 ? before : [...before, ...later];
}
