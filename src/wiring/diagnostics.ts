/** The gateway's diagnostics on standard error: lines of JSON for programs, or of text for people. */

import type { DestinationStream, Logger } from 'pino';
import pino from 'pino';
import { isObject } from '../json/is-object.ts';
import { printable } from '../projections/printable.ts';

export interface DiagnosticsOptions {
  readonly level: string;
  /** `auto`: text on a terminal, else JSON. */
  readonly format: 'auto' | 'text' | 'json';
}

/**
 * A condition of operation, such as a full disk, has a stack only at the levels `debug` and `trace`.
 * @param output default: standard error, written synchronously
 */
export function createDiagnostics(
  { level, format }: DiagnosticsOptions,
  output: DestinationStream = standardError(),
  isTerminal = process.stderr.isTTY === true,
): Logger {
  const isText = format === 'text' || (format === 'auto' && isTerminal);
  const shown = isText ? readableLine : printable;
  const destination = { write: (line: string) => output.write(shown(line)) };
  const hasStacks = level === 'debug' || level === 'trace';
  const serializers = { err: hasStacks ? pino.stdSerializers.err : withoutNeedlessStack };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, serializers }, destination);
}

function withoutNeedlessStack(error: Error): object {
  if (!isOperatingCondition(error)) return pino.stdSerializers.err(error);
  const { name: type, message, code, path } = error as NodeJS.ErrnoException;
  return { type, message, code, path };
}

/** A line that cannot be written, because the disk behind it is full or its reader has gone, is lost without an error. */
function standardError(): DestinationStream {
  const output = pino.destination({ dest: process.stderr.fd, sync: true });
  output.on('error', () => {});
  return output;
}

/**
 * Formats one of pino's lines for people: time, level, message, then the other members. Only the stack of an error
 * takes further lines. External text cannot begin a line or send control sequences to the terminal.
 */
export function readableLine(json: string): string {
  const { level, time, msg, err, ...others }: Record<string, unknown> = JSON.parse(json);
  const label = pino.levels.labels[Number(level)] ?? String(level);
  const { message, stack } = isObject(err) ? err : {};
  const summary = [...new Set([msg, message])].filter((each) => typeof each === 'string' && each !== '').join(': ');
  const members = Object.entries(others).map(([name, value]) => `${name}=${plain(value)}`);
  const line = [String(time), label.toUpperCase().padEnd(5), summary, ...members].join(' ').trimEnd();
  const frames = typeof stack === 'string' ? stack.split('\n').filter((each) => /^\s+at /.test(each)) : [];
  return [line, ...frames].map((each) => `${printable(each.replaceAll(/[\t\n]/g, ' '))}\n`).join('');
}

function plain(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

// Errors that are conditions of operation, and no defects of the program: an operator needs what and where, and no stack.

/** Of the system: errno(3), and the resolver. */
const systemCodes: ReadonlySet<unknown> = new Set([
  ...['ENOSPC', 'EDQUOT', 'EFBIG', 'EROFS', 'EIO', 'ENOENT', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE', 'ENODEV', 'ESTALE'],
  ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN'],
]);
/** Of SQLite: PERM, BUSY, READONLY, IOERR, FULL, CANTOPEN. The higher bits are details. */
const sqliteCodes = new Set([3, 5, 8, 10, 13, 14]);

/** Whether the error, or one of its causes, is such a condition. */
function isOperatingCondition(error: unknown): boolean {
  if (!isObject(error)) return false;
  const { code, errcode, cause } = error;
  if (systemCodes.has(code) || (typeof errcode === 'number' && sqliteCodes.has(errcode & 0xff))) return true;
  return isOperatingCondition(cause);
}
