/** Texts divided into pieces anywhere, also within surrogate pairs. */
import fc from 'fast-check';

export interface Chunked {
  readonly whole: string;
  readonly pieces: readonly string[];
}

/** Divides the texts that `text` generates. */
export function chunked(text: fc.Arbitrary<string>): fc.Arbitrary<Chunked> {
  return text.chain((whole) =>
    fc.array(fc.nat({ max: whole.length }), { maxLength: 12 }).map((cuts) => ({ whole, pieces: divided(whole, cuts) })),
  );
}

/** Every unit is a piece of its own. */
export function singleUnits(whole: string): string[] {
  return whole.split('');
}

function divided(whole: string, cuts: readonly number[]): string[] {
  const ends = [...new Set([...cuts, whole.length])].sort((one, other) => one - other);
  return ends.map((end, index) => whole.slice(ends[index - 1] ?? 0, end));
}

export interface PushedText {
  push(text: string): string;
  end(): string;
}

export function throughPieces(stage: PushedText, pieces: readonly string[]): string {
  return pieces.map((piece) => stage.push(piece)).join('') + stage.end();
}
