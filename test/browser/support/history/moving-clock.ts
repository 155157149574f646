/**
 * Loaded before the gateway (`node --import`): its clocks begin at `CLOCK_START`, run `CLOCK_SPEED` times as fast as the
 * real ones, and jump to the time of each message `{ advanceTo }`, which is answered. Timers keep their real length. So
 * real requests give a history of weeks in seconds.
 */
const start = Number(process.env.CLOCK_START);
const speed = Number(process.env.CLOCK_SPEED ?? '1');
const RealDate = Date;
const realElapsed = performance.now.bind(performance);
const startedAt = realElapsed();
let jumped = 0;

const elapsed = () => (realElapsed() - startedAt) * speed + jumped;

class MovedDate extends RealDate {
  // The arguments of Date: none, one of several types, or up to seven numbers.
  constructor(...given: unknown[]) {
    if (given.length === 0) super(MovedDate.now());
    else super(...(given as [number]));
  }

  static override now(): number {
    return Math.floor(start + elapsed());
  }
}

globalThis.Date = MovedDate as DateConstructor;
Object.defineProperty(performance, 'now', { value: elapsed });
Object.defineProperty(performance, 'timeOrigin', { value: start });

process.on('message', (message: { advanceTo?: number }) => {
  if (message.advanceTo === undefined) return;
  jumped += Math.max(0, message.advanceTo - (start + elapsed()));
  process.send?.({ now: MovedDate.now() });
});
