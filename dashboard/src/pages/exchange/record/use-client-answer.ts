/** The answer as the client received it, which the gateway derives from the record. */
import { getAnswer } from '../../../api/client.ts';
import { type Loaded, useLoaded } from '../../../api/use-answer.ts';

export interface ClientAnswer {
  /** JSON, or a stream; undefined when nothing was sent or kept. */
  readonly text: string | undefined;
  readonly isCut: boolean;
}

/** @param revision of the last event that was read: a running answer grows */
export function useClientAnswer(id: string, revision: string | undefined): Loaded<ClientAnswer> {
  return useLoaded(
    async (signal) => {
      const { data } = await getAnswer('/admin/audit/detail', { query: { log_id: id }, signal });
      const { response_body: body, response_body_too_big_to_handle: isCut } = data;
      const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
      return { text, isCut: isCut === true };
    },
    `${id} ${revision ?? ''}`,
    { keepWhile: id },
  );
}
