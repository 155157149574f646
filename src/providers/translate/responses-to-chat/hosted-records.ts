/**
 * The treatment of items that only a provider with a native Responses API supports. The record of completed work of a
 * provider's own tool is dropped, since its result is in the assistant's text after it; any other item is refused,
 * since leaving it out would change the model's input.
 */
import type { JsonObject } from '../json.ts';

/** `approval`: the client permits a hosted tool call. It is a record once the call has a result, else a demand. */
export type HostedHandling = 'dropped' | 'approval' | 'refused';

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

export function hostedRecord(item: JsonObject, type: string): HostedHandling {
  if (type === 'mcp_approval_response') return 'approval';
  // A provider's search finds tools that the request lists, and all of those are sent. A client's search adds tools.
  if (toolSearches.has(type)) return item['execution'] === 'client' ? 'refused' : 'dropped';
  return records.has(type) ? 'dropped' : 'refused';
}
