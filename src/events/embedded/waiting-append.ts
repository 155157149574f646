import type { Appended } from '../log.ts';
import type { RememberedAppend } from './batch.ts';
import type { SizedAppend } from './prepared-append.ts';

/** An append that has been called and waits for its turn. */
export interface WaitingAppend {
  readonly append: SizedAppend;
  readonly durable: boolean;
  /** Since when, as `performance.now()` counts. */
  readonly since: number;
  /** When its events came with ids. */
  readonly remembered?: RememberedAppend | undefined;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}
