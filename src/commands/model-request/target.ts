import type { Provider } from '../../providers/provider.ts';

/** A provider with one of its models. */
export interface Target {
  readonly provider: Provider;
  /** The provider's own id of the model; empty when no model is called. */
  readonly model: string;
}
