import { beforeEach, describe, expect, it } from 'vitest';
import { type LogStatus, LogUnavailable } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { errorReporter } from '../../src/wiring/log/event-log.ts';

let lines: unknown[];
let change: (state: LogStatus['state'], reason?: string) => void;
let report: (error: unknown) => void;

beforeEach(() => {
  lines = [];
  const note = (line: unknown) => void lines.push(line);
  const { head, durableHead, ...status } = new MemoryLog().status();
  report = errorReporter(
    { error: note, info: note },
    {
      onStatusChange(listener) {
        change = (state, reason) =>
          listener({ ...status, head, durableHead, state, ...(reason === undefined ? {} : { reason }) });
        return () => {};
      },
    },
  );
});

const failure = (reason: string) => new LogUnavailable(reason, 'none');

describe('an event log that cannot be written', () => {
  it('is one line without a stack trace, however much fails because of it', () => {
    change('unavailable', 'no answer');
    for (let time = 0; time < 5; time++) report(failure('no answer'));
    expect(lines).toEqual(['the event log cannot be written: no answer']);
  });

  it('is another line for another reason, and after it could be written', () => {
    for (const reason of ['no answer', 'no answer', 'disk full']) report(failure(reason));
    change('ok');
    report(failure('disk full'));
    expect(lines).toEqual([
      'the event log cannot be written: no answer',
      'the event log cannot be written: disk full',
      'the event log can be written again',
      'the event log cannot be written: disk full',
    ]);
  });
});

it('any other error is reported each time, with its stack trace', () => {
  const error = new Error('a bug');
  report(error);
  report(error);
  expect(lines).toEqual([error, error]);
});
