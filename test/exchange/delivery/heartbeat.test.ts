import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Heartbeat } from '../../../src/commands/exchange/delivery/pass-stream.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('the heartbeat of an event stream', () => {
  it('sends a comment after every 15 seconds of silence', () => {
    const sent: string[] = [];
    const heartbeat = new Heartbeat((comment) => sent.push(comment.toString()));
    vi.advanceTimersByTime(14_999);
    expect(sent).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(sent).toEqual([': keep-alive\n\n']);
    vi.advanceTimersByTime(30_000);
    expect(sent).toHaveLength(3);
    heartbeat.stop();
  });

  it('counts the silence from the last bytes that were sent', () => {
    const sent: Buffer[] = [];
    const heartbeat = new Heartbeat((comment) => sent.push(comment));
    vi.advanceTimersByTime(10_000);
    heartbeat.sent();
    vi.advanceTimersByTime(14_999);
    expect(sent).toHaveLength(0);
    vi.advanceTimersByTime(1);
    expect(sent).toHaveLength(1);
    heartbeat.stop();
  });

  it('sends nothing after it was stopped, also when bytes follow', () => {
    const sent: Buffer[] = [];
    const heartbeat = new Heartbeat((comment) => sent.push(comment));
    heartbeat.stop();
    heartbeat.sent();
    vi.advanceTimersByTime(60_000);
    expect(sent).toHaveLength(0);
  });
});
