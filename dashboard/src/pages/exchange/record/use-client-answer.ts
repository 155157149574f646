/** The answer as the client received it, which the gateway derives from the record. */
import { getAnswer } from '../../../api/client.ts';
import { type Loaded, useLoaded } from '../../../api/use-answer.ts';

export interface ClientAnswer {
  /** JSON, or a stream; undefined when nothing was sent or kept. */
  readonly text: string | undefined;
  readonly isCut: boolean;
}

/** Each read is recorded: while the request is running it is read once, and again when it has ended. */
export function useClientAnswer(id: string, hasEnded: boolean): Loaded<ClientAnswer> {
  return useLoaded(
    async (signal) => {
      const { data } = await getAnswer('/admin/audit/detail', { query: { log_id: id }, signal });
      const { response_body: body, response_body_too_big_to_handle: isCut } = data;
      const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
      return { text, isCut: isCut === true };
    },
    `${id} ${hasEnded}`,
    { keepWhile: id },
  );
}
