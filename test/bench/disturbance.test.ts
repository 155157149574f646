import { describe, expect, it } from 'vitest';
import { turns } from '../../bench/sections/round.ts';
import { flushes, flushMs } from '../../bench/servers/disk.ts';
import { coreTimes, disturbance } from '../../bench/servers/disturbance.ts';

/** user nice system idle iowait irq softirq steal, in hundredths of a second. */
const stat = (first: string, second: string) =>
  `cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 ${first} 0 0\ncpu1 ${second} 0 0\nintr 1\n`;

describe('the disturbance of a measurement', () => {
  it('counts the pinned processor alone', () => {
    expect(coreTimes(stat('10 1 5 100 2 1 3 4', '50 0 0 0 0 0 0 50'), '0')).toEqual({
      busy: 200,
      stolen: 40,
      all: 1260,
    });
  });

  it('is the processor time of the hypervisor and other processes, as shares of the time', () => {
    const before = coreTimes(stat('0 0 0 0 0 0 0 0', '0 0 0 0 0 0 0 0'), '0');
    const after = coreTimes(stat('60 0 10 10 0 0 0 20', '99 0 0 0 0 0 0 0'), '0');
    expect(disturbance(before, after, 400)).toEqual({ stolen: 0.2, others: 0.3 });
    expect(disturbance(before, after, 900).others).toBe(0);
  });
});

describe('flushes of the disk', () => {
  const disk = (name: string, count: number, ms: number) =>
    ` 254 0 ${name} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ${count} ${ms}`;

  it('are counted over all disks, with the time of one', () => {
    const before = flushes(`${disk('vda', 10, 100)}\n${disk('vdb', 0, 0)}\n`);
    const after = flushes(`${disk('vda', 30, 104)}\n${disk('vdb', 20, 4)}\n`);
    expect(before).toEqual({ count: 10, ms: 100 });
    expect(flushMs(before, after)).toBe(0.2);
    expect(flushMs(after, after)).toBeNull();
  });
});

describe('the order of servers in the rounds', () => {
  it('gives each server every place', () => {
    const orders = [0, 1, 2, 3, 4, 5].map((round) => turns(['a', 'b', 'c'], round).join(''));
    expect(orders).toEqual(['abc', 'cba', 'bca', 'acb', 'cab', 'bac']);
  });

  it('gives each of two servers the first place in every other round', () => {
    const orders = [0, 1, 2, 3].map((round) => turns(['a', 'b'], round).join(''));
    expect(orders).toEqual(['ab', 'ba', 'ba', 'ab']);
  });
});
