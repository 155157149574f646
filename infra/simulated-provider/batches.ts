/** `/v1/batches`: answers the requests of one file in another file. */
import { BackgroundJob, type JobState } from './background-job.ts';
import type { FaultPlan } from './fault.ts';
import { type Files, missing, type Stamp } from './files.ts';
import { isObject, type JsonObject, objectIn, parseJson, textIn } from './json.ts';
import { pageOf } from './page.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';

const ENDPOINTS = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses', '/v1/messages'];
const DAY = 86_400;

export interface BatchOptions {
  readonly files: Files;
  readonly backgroundMs: number;
  readonly plan: FaultPlan;
  /** The answer to one request of a batch. */
  answer(path: string, body: JsonObject): { status: number; json: object };
  stamp(prefix: string): Stamp;
}

interface Stored {
  about: JsonObject;
  readonly job: BackgroundJob;
  /** Well-formed lines of the input file; undefined when one is not. */
  readonly requests: readonly JsonObject[] | undefined;
}

export class Batches {
  readonly #options: BatchOptions;
  readonly #stored = new Map<string, Stored>();

  constructor(options: BatchOptions) {
    this.#options = options;
  }

  create(body: JsonObject, holdAt?: 'queued' | 'in_progress'): Reply {
    const { files, stamp, backgroundMs, plan } = this.#options;
    const input = textIn(body.input_file_id);
    const endpoint = textIn(body.endpoint);
    if (input === undefined) throw missing('input_file_id');
    if (endpoint === undefined) throw missing('endpoint');
    if (!ENDPOINTS.includes(endpoint))
      throw new Refused(400, `Invalid value: '${endpoint}'. Supported: ${ENDPOINTS.join(', ')}.`, {
        param: 'endpoint',
      });
    if (body.completion_window !== '24h')
      throw new Refused(400, "Invalid value for completion_window. Supported: '24h'.", { param: 'completion_window' });
    const requests = requestsIn(files.find(input).bytes);
    const { id, at } = stamp('batch_');
    const about = {
      id,
      object: 'batch',
      endpoint,
      errors: null,
      input_file_id: input,
      completion_window: '24h',
      status: 'validating',
      output_file_id: null,
      error_file_id: null,
      created_at: at,
      in_progress_at: null,
      expires_at: at + DAY,
      finalizing_at: null,
      completed_at: null,
      failed_at: null,
      expired_at: null,
      cancelling_at: null,
      cancelled_at: null,
      request_counts: { total: requests?.length ?? 0, completed: 0, failed: 0 },
      metadata: body.metadata ?? null,
    };
    this.#stored.set(id, { about, job: new BackgroundJob(backgroundMs, plan, holdAt), requests });
    return { status: 200, json: about };
  }

  retrieve(id: string): Reply {
    return { status: 200, json: this.#now(this.#find(id)) };
  }

  list(query: URLSearchParams): Reply {
    const all = [...this.#stored.values()].map((stored) => this.#now(stored));
    return { status: 200, json: pageOf(all, query, { usual: 20, most: 100 }) };
  }

  /** Returns the batch as `cancelling`; later reads return `cancelled`. */
  cancel(id: string): Reply {
    const stored = this.#find(id);
    const { status } = this.#now(stored);
    if (status !== 'validating' && status !== 'in_progress')
      throw new Refused(409, `Cannot cancel a batch with status '${status}'.`);
    stored.job.cancel();
    const { at } = this.#options.stamp('');
    stored.about = { ...stored.about, cancelling_at: at };
    return { status: 200, json: { ...stored.about, status: 'cancelling' } };
  }

  #find(id: string): Stored {
    const stored = this.#stored.get(id);
    if (stored === undefined) throw new Refused(404, `No batch found with id '${id}'.`, { param: 'batch_id' });
    return stored;
  }

  /** A batch is answered at the first read after its end time. */
  #now(stored: Stored): JsonObject {
    const status = statusOf(stored.job.state, stored.requests !== undefined);
    if (status !== stored.about.status) stored.about = { ...stored.about, status, ...this.#became(status, stored) };
    return stored.about;
  }

  #became(status: string, { about, requests = [] }: Stored): JsonObject {
    const { at } = this.#options.stamp('');
    switch (status) {
      case 'in_progress':
        return { in_progress_at: at };
      case 'cancelled':
        return { cancelled_at: at };
      case 'failed': {
        const error = { code: 'invalid_json_line', message: 'A line is not a JSON object.', param: null, line: null };
        return { failed_at: at, errors: { object: 'list', data: [error] } };
      }
      default:
        return {
          in_progress_at: about.in_progress_at ?? at,
          finalizing_at: at,
          completed_at: at,
          ...this.#run(requests),
        };
    }
  }

  #run(requests: readonly JsonObject[]): JsonObject {
    const { answer, stamp } = this.#options;
    const lines = requests.map(({ custom_id, url, body }) => {
      const { status, json } = answer(textIn(url) ?? '', objectIn(body));
      const response = { status_code: status, request_id: stamp('req_').id, body: json };
      return { id: stamp('batch_req_').id, custom_id, response, error: null };
    });
    const [good = [], bad = []] = [true, false].map((wanted) =>
      lines.filter(({ response }) => response.status_code < 400 === wanted),
    );
    return {
      output_file_id: this.#file('batch_output.jsonl', good),
      error_file_id: this.#file('batch_errors.jsonl', bad),
      request_counts: { total: lines.length, completed: good.length, failed: bad.length },
    };
  }

  #file(filename: string, lines: readonly object[]): string | null {
    if (lines.length === 0) return null;
    const { files, stamp } = this.#options;
    const stamped = stamp('file-');
    const bytes = Buffer.from(`${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
    files.add({ filename, purpose: 'batch_output', bytes }, stamped);
    return stamped.id;
  }
}

function statusOf(state: JobState, wellFormed: boolean): string {
  if (state === 'queued') return 'validating';
  if (!wellFormed && state !== 'cancelled') return 'failed';
  return state === 'over' ? 'completed' : state;
}

function requestsIn(bytes: Buffer): JsonObject[] | undefined {
  const lines = bytes
    .toString()
    .split('\n')
    .filter((line) => line.trim() !== '');
  const requests = lines.map((line) => parseJson(line));
  return requests.every(isObject) ? requests : undefined;
}
