/**
 * Rewrites the strings and numbers of a JSON text that arrives in pieces. Joined, what is returned is JSON with the same
 * structure whose values are rewritten as whole texts. Unchanged strings may be escaped differently.
 */
import { decodeJsonString, encodeJsonString, plainNumber } from './json-text.ts';

/** Rewrites one string or number. */
export interface TextStage {
  push(text: string): string;
  end(): string;
}

const quote = '"';
const structure = /["\-0-9]/g;
const inNumber = /[-+.0-9eE]*/y;
const stringEnd = /["\\]/g;
/** `\` and the most that follows it: `uXXXX`. */
const escapeSequence = /\\(?:u[0-9a-fA-F]{4}|[^u])/y;
const longestEscape = 6;
/** A longer number passes unchanged. */
const longestNumber = 400;

export class JsonTextRewriter {
  readonly #open: () => TextStage;
  #string: TextStage | undefined;
  /** An incomplete escape, or a number. */
  #held = '';
  #inNumber = false;

  /** @param open begins the rewriting of the next string or number */
  constructor(open: () => TextStage) {
    this.#open = open;
  }

  push(piece: string): string {
    const text = this.#held + piece;
    this.#held = '';
    return this.#read(text);
  }

  end(): string {
    const number = this.#inNumber ? this.#endNumber(this.#held) : '';
    const rest = this.#string === undefined ? '' : encodeJsonString(this.#string.end()) + this.#held;
    this.#string = undefined;
    this.#held = '';
    this.#inNumber = false;
    return number + rest;
  }

  #read(text: string): string {
    let returned = '';
    let at = 0;
    while (at < text.length) {
      if (this.#string !== undefined) {
        const { written, next } = this.#readString(this.#string, text, at);
        returned += written;
        at = next;
      } else if (this.#inNumber) {
        inNumber.lastIndex = at;
        inNumber.exec(text);
        const end = inNumber.lastIndex;
        if (end === text.length && end - at <= longestNumber) {
          this.#held = text.slice(at);
          return returned;
        }
        returned += this.#endNumber(text.slice(at, end));
        at = end;
      } else {
        structure.lastIndex = at;
        const found = structure.exec(text);
        if (found === null) return returned + text.slice(at);
        returned += text.slice(at, found.index);
        at = found.index;
        if (found[0] === quote) {
          returned += quote;
          at += 1;
          this.#string = this.#open();
        } else this.#inNumber = true;
      }
    }
    return returned;
  }

  #readString(stage: TextStage, text: string, from: number): { readonly written: string; readonly next: number } {
    let decoded = '';
    let at = from;
    while (at < text.length) {
      stringEnd.lastIndex = at;
      const found = stringEnd.exec(text);
      if (found === null) return { written: pushed(stage, decoded + text.slice(at)), next: text.length };
      decoded += text.slice(at, found.index);
      at = found.index;
      if (found[0] === quote) {
        this.#string = undefined;
        return { written: pushed(stage, decoded) + encodeJsonString(stage.end()) + quote, next: at + 1 };
      }
      escapeSequence.lastIndex = at;
      const complete = escapeSequence.exec(text)?.[0];
      if (complete === undefined && text.length - at < longestEscape) {
        this.#held = text.slice(at);
        return { written: pushed(stage, decoded), next: text.length };
      }
      // An invalid escape keeps its letter.
      const read = complete ?? text.slice(at, at + 2);
      decoded += decodeJsonString(read);
      at += read.length;
    }
    return { written: pushed(stage, decoded), next: at };
  }

  #endNumber(number: string): string {
    this.#inNumber = false;
    const stage = this.#open();
    const plain = plainNumber(number);
    const rewritten = stage.push(plain) + stage.end();
    return rewritten === plain ? number : JSON.stringify(rewritten);
  }
}

function pushed(stage: TextStage, decoded: string): string {
  return decoded === '' ? '' : encodeJsonString(stage.push(decoded));
}
