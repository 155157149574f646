/**
 * What becomes of items that only a provider with a native Responses API works with. One rule: the record of work that
 * a provider's own tool has done is dropped, for what came of it is in the assistant's text after it; any other item
 * is refused, for leaving it out would change what the model is told.
 */
import type { JsonObject } from '../json.ts';

/** `approval`: the client lets a hosted tool run. It is a record when something came of it, and a demand until then. */
export type HostedFate = 'dropped' | 'approval' | 'refused';

const records = new Set([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'mcp_call',
  'mcp_list_tools',
  'mcp_approval_request',
]);

const toolSearches = new Set(['tool_search_call', 'tool_search_output']);

export function hostedRecord(item: JsonObject, type: string): HostedFate {
  if (type === 'mcp_approval_response') return 'approval';
  // A search by the provider finds tools that the request lists, and all of those are sent. One by the client adds some.
  if (toolSearches.has(type)) return item['execution'] === 'client' ? 'refused' : 'dropped';
  return records.has(type) ? 'dropped' : 'refused';
}
