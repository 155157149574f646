/** A turn that grows while the frames of a stream are read. */
import { turnOf } from './message-turns.ts';
import type { NamedNode, Part, PlacedPart, Turn } from './turn.ts';

type TextKind = 'text' | 'reasoning' | 'refusal';

type Growing =
  | { readonly kind: TextKind; text: string }
  | { readonly kind: 'call'; id: string | undefined; name: string; arguments: string }
  | { readonly kind: 'audio'; base64: string; transcript: string }
  | { readonly kind: 'part'; readonly part: Part };

interface CallPiece {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly arguments?: string | undefined;
}

const MAX_OTHERS = 100;

export class TurnBuilder {
  role: string;
  ending: string | undefined;
  readonly #parts: Growing[] = [];
  readonly #byKey = new Map<string, Growing>();
  readonly #others: NamedNode[] = [];

  constructor(role: string) {
    this.role = role;
  }

  /** Extends the last part if it is of that kind, or begins one. */
  append(kind: TextKind, text: string | undefined): void {
    if (text === undefined || text === '') return;
    const last = this.#parts.at(-1);
    if (last?.kind === kind) last.text += text;
    else this.#parts.push({ kind, text });
  }

  /** Begins the part with that key, or extends it. */
  begin(key: string, kind: TextKind, text: string | undefined): void {
    const known = this.#byKey.get(`${kind} ${key}`);
    if (known !== undefined && 'text' in known) known.text += text ?? '';
    else this.#add(`${kind} ${key}`, { kind, text: text ?? '' });
  }

  appendCall(key: string, piece: CallPiece): void {
    const known = this.#byKey.get(`call ${key}`);
    if (known?.kind === 'call') {
      known.id ??= piece.id;
      known.name += piece.name ?? '';
      known.arguments += piece.arguments ?? '';
      return;
    }
    const { id, name = '', arguments: given = '' } = piece;
    this.#add(`call ${key}`, { kind: 'call', id, name, arguments: given });
  }

  appendAudio(base64: string | undefined, transcript: string | undefined): void {
    if (base64 === undefined && transcript === undefined) return;
    const known = this.#byKey.get('audio');
    if (known?.kind === 'audio') {
      known.base64 += base64 ?? '';
      known.transcript += transcript ?? '';
    } else this.#add('audio', { kind: 'audio', base64: base64 ?? '', transcript: transcript ?? '' });
  }

  #add(key: string, part: Growing): void {
    this.#parts.push(part);
    this.#byKey.set(key, part);
  }

  addPart(part: Part): void {
    this.#parts.push({ kind: 'part', part });
  }

  addOthers(others: readonly NamedNode[]): void {
    this.#others.push(...others.slice(0, Math.max(0, MAX_OTHERS - this.#others.length)));
  }

  build(choice: number | undefined): Turn {
    const parts = this.#parts.map(built).filter((part) => !('text' in part) || part.text !== '');
    const placed = parts.map((part): PlacedPart => ({ part, path: undefined }));
    return turnOf('answer', this.role, placed, { choice, ending: this.ending, others: this.#others });
  }
}

function built(growing: Growing): Part {
  switch (growing.kind) {
    case 'call':
      return { kind: 'tool call', id: growing.id, name: growing.name, arguments: growing.arguments };
    case 'audio': {
      const media =
        growing.base64 === ''
          ? ({ kind: 'none' } as const)
          : ({ kind: 'data', mediaType: 'audio', base64: growing.base64 } as const);
      return {
        kind: 'audio',
        media,
        name: undefined,
        ...(growing.transcript === '' ? {} : { transcript: growing.transcript }),
      };
    }
    case 'part':
      return growing.part;
    default:
      return { kind: growing.kind, text: growing.text };
  }
}
