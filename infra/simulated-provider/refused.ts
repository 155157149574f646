import type { Trouble } from './dialect.ts';

/** A request that the simulated provider refuses. */
export class Refused extends Error implements Trouble {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly type?: string;
  constructor(status: number, message: string, detail: { param?: string; code?: string; type?: string } = {}) {
    super(message);
    this.status = status;
    this.param = detail.param ?? null;
    this.code = detail.code ?? null;
    this.type = detail.type;
  }
}
