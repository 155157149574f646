/** Writes JSON answers in any formatting, with values in their places that differ from caller to caller. */

/** JSON as it is written: members in order, also repeated ones, and numbers as digits. */
export type Node =
  | string
  | null
  | boolean
  | { readonly digits: string }
  | { readonly issued: 'answer' | 'created' | 'completed' | { readonly kind: string; readonly place: number } }
  | { readonly members: readonly (readonly [string, Node])[] }
  | readonly Node[];

export interface Values {
  readonly answer: string;
  readonly created: number;
  readonly completed: number;
  /** 32 hexadecimal digits. */
  readonly root: string;
}

export const answer: Node = { issued: 'answer' };
export const created: Node = { issued: 'created' };
export const completed: Node = { issued: 'completed' };
export const item = (kind: string, place: number): Node => ({ issued: { kind, place } });
export const object = (...members: readonly (readonly [string, Node])[]): Node => ({ members });
export const number = (digits: number | string): Node => ({ digits: String(digits) });

const SPACES = ['', '', ' ', '\n', ' \n  ', '\t'];

/** @param picks choices of formatting, used in a circle; they do not depend on the values */
export function written(node: Node, picks: readonly number[], values: Values): string {
  let used = 0;
  const pick = () => picks[used++ % picks.length] ?? 0;
  const space = () => SPACES[pick() % SPACES.length] ?? '';
  const text = (value: string, isEscaped: boolean) =>
    isEscaped
      ? `"${[
          ...Buffer.from(value, 'utf16le')
            .toString('hex')
            .matchAll(/(..)(..)/g),
        ]
          .map(([, low, high]) => `\\u${high}${low}`)
          .join('')}"`
      : JSON.stringify(value);
  const write = (one: Node): string => {
    if (one === null || typeof one === 'boolean') return String(one);
    if (typeof one === 'string') return text(one, pick() === 5);
    if ('digits' in one) return one.digits;
    if ('issued' in one) return writeIssued(one.issued, values);
    const parts = 'members' in one ? one.members.map(([name, value]) => member(name, value)) : one.map(write);
    const inside = parts.map((part) => `${space()}${part}${space()}`).join(',');
    return 'members' in one ? `{${inside}${space()}}` : `[${inside}]`;
  };
  const member = (name: string, value: Node) => `${text(name, pick() === 4)}${space()}:${space()}${write(value)}`;
  return `${space()}${write(node)}${space()}`;
}

function writeIssued(issued: Extract<Node, { issued: unknown }>['issued'], values: Values): string {
  if (issued === 'answer') return JSON.stringify(values.answer);
  if (issued === 'created') return String(values.created);
  if (issued === 'completed') return String(values.completed);
  return `"${issued.kind}_${values.root}_${issued.place}"`;
}

/** The events as a stream: each line of the data in a line of its own, with comments and names between them. */
export function streamOf(events: readonly string[], picks: readonly number[]): string {
  const end = ['\n', '\r\n', '\r'][(picks[0] ?? 0) % 3] ?? '\n';
  return events
    .map((data, index) => {
      const pick = picks[index % picks.length] ?? 0;
      const before = pick === 1 ? `: a comment${end}${end}` : pick === 2 ? `event: e${end}` : '';
      const lines = data.split('\n').map((line) => `data:${pick === 3 ? '' : ' '}${line}`);
      return `${before}${lines.join(end)}${end}${end}`;
    })
    .join('');
}
