/** How the texts of one kind of body are found, and how its system text is changed. */
import type { SystemChange } from '../guarded-text.ts';
import type { BodyTexts } from './body-texts.ts';

export interface GuardedBody {
  texts(body: unknown): BodyTexts;
  /** Undefined for answers. */
  withSystem?(body: unknown, change: SystemChange): unknown;
}
