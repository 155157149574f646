/** A file of JSON lines, read as it arrives: at most one line of it is held in memory. */
import { parseExactly } from '../../json/exact-json.ts';
import { ProviderFailure, type ReplyBody } from '../../providers/provider.ts';
import { refusalFromFailure } from '../model-request/refusal-from-upstream.ts';
import { refusals } from '../refusal.ts';

export interface LineLimits {
  readonly lineBytes: number;
  readonly totalBytes: number;
  readonly lines: number;
}

const NEWLINE = 0x0a;

/**
 * Calls `onLine` with the value and the bytes of each line that is not empty; continues when `pause` of a piece has
 * resolved. The value of a line that is not JSON is `undefined`.
 * @throws Refusal when a limit is exceeded or the provider fails; errors of `onLine`
 */
export async function forEachLine(
  body: ReplyBody,
  limits: LineLimits,
  onLine: (value: unknown, line: Buffer) => void,
  pause?: () => Promise<unknown> | undefined,
): Promise<void> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let total = 0;
  let lines = 0;
  const hold = (piece: Buffer): void => {
    held.push(piece);
    heldBytes += piece.length;
    if (heldBytes > limits.lineBytes) throw tooLarge(`a line has more than ${limits.lineBytes} bytes`);
  };
  const endLine = (): void => {
    const line = Buffer.concat(held);
    held = [];
    heldBytes = 0;
    const text = line.toString();
    if (text.trim() === '') return;
    lines += 1;
    if (lines > limits.lines) throw tooLarge(`it has more than ${limits.lines} lines`);
    onLine(parsed(text), line);
  };
  try {
    await body.pieces((piece) => {
      total += piece.length;
      if (total > limits.totalBytes) throw tooLarge(`it has more than ${limits.totalBytes} bytes`);
      let from = 0;
      for (let at = piece.indexOf(NEWLINE); at !== -1; at = piece.indexOf(NEWLINE, from)) {
        hold(piece.subarray(from, at));
        endLine();
        from = at + 1;
      }
      if (from < piece.length) hold(piece.subarray(from));
      return pause?.();
    });
    endLine();
  } catch (error) {
    throw error instanceof ProviderFailure ? refusalFromFailure(error) : error;
  }
}

function tooLarge(why: string) {
  return refusals.invalidRequest(`The batch's file cannot be read: ${why}.`, 'input_file_id', 'batch_too_large');
}

function parsed(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}
