import type { JsonObject } from './json.ts';

/** A request that the simulated provider says no to, in OpenAI's error shape. */
export class Refused extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
  readonly type: string;
  constructor(status: number, message: string, detail: { param?: string; code?: string; type?: string } = {}) {
    super(message);
    this.status = status;
    this.param = detail.param ?? null;
    this.code = detail.code ?? null;
    this.type = detail.type ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
  }

  body(): JsonObject {
    return { error: { message: this.message, type: this.type, param: this.param, code: this.code } };
  }
}
