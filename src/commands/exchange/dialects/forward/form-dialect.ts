/** A model endpoint that takes a form. One dialect per request, since a form is read once, as it arrives. */
import { type ForwardOperation, requestedUnits } from '../../../model-request/forward-operations.ts';
import type { ModelRequest } from '../../../model-request/model-request.ts';
import type { ReadResult } from '../../../model-request/parsed-request.ts';
import { referencesInForm } from '../../../model-request/references.ts';
import type { Target } from '../../../model-request/target.ts';
import { Refusal, refusals } from '../../../refusal.ts';
import { seesEverything } from '../../../visibility.ts';
import type { ExchangeDialect, PlanInput } from '../../dialect.ts';
import type { ForwardPlan } from '../../plan.ts';
import type { Relay } from '../../relay.ts';
import { FormUpload } from '../../uploads/form-upload.ts';
import { type OpenForm, openForm } from '../../uploads/open-form.ts';
import { type ForwardOptions, forwardPlan } from './forward-dialect.ts';
import { forwardRelay } from './forward-relay.ts';

export interface FormOptions extends ForwardOptions {
  readonly limitBytes: number;
}

export function formDialect(operation: ForwardOperation, options: FormOptions): ExchangeDialect {
  let form: OpenForm | undefined;
  return {
    name: 'forward',
    endpoint: operation.endpoint,
    units: ({ json }) => requestedUnits(operation, json),
    read: () => ({ ok: false, refusal: refusals.formExpected('JSON') }),
    async take(request): Promise<ReadResult> {
      const opened = await openedForm(request, options.limitBytes, (fields) => fields.has('model'));
      if (!opened.ok) return opened;
      form = opened.form;
      const { fields } = form;
      const model = fields.get('model') ?? '';
      if (model === '') return { ok: false, refusal: missingModel() };
      const json = Object.fromEntries(fields);
      return {
        ok: true,
        parsedRequest: {
          model,
          provider: fields.get('provider') || undefined,
          stream: fields.get('stream') === 'true',
          json,
        },
      };
    },
    plan(input) {
      if (form === undefined) throw new Error('the form was not read');
      return planOf(form, input, operation, options);
    },
    relayOfRecorded: ({ provider }) => forwardRelay(provider, operation.endsWithReason === true),
  };
}

function planOf(
  form: OpenForm,
  input: PlanInput,
  operation: ForwardOperation,
  options: FormOptions,
): ForwardPlan<Relay> {
  const { model } = input.target;
  const head = forwardPlan(operation, options, input);
  const { headers, ...upload } = formUpload(form, input, {
    change: (name, value) => (name === 'model' ? model : value),
    keepText: input.policy.capture === 'full',
    keepFiles: input.policy.capture === 'full' && operation.files !== undefined && options.keeps[operation.files],
  });
  return { ...head, call: { ...head.call, headers }, ...upload };
}

/** Reads the form of a request until the target is decided. */
export async function openedForm(
  request: ModelRequest,
  limitBytes: number,
  isDecided: (fields: ReadonlyMap<string, string>) => boolean,
): Promise<{ readonly ok: true; readonly form: OpenForm } | { readonly ok: false; readonly refusal: Refusal }> {
  const { headers, body, bodyPieces } = request;
  if (Number(headers['content-length']) > limitBytes) return { ok: false, refusal: refusals.bodyTooLarge(limitBytes) };
  const source = { pieces: bodyPieces ?? only(body), contentType: headers['content-type'] ?? 'nothing', limitBytes };
  try {
    return { ok: true, form: await openForm(source, isDecided) };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, refusal: error };
    throw error;
  }
}

/** How a form is sent to the provider: in one piece when all of it has been read, else as it arrives. */
export function formUpload(
  form: OpenForm,
  { record, target, sight }: Pick<PlanInput, 'record' | 'target' | 'sight'>,
  options: {
    /** The value that the provider gets for a field; undefined when it does not get the field. */
    change(name: string, value: string): string | undefined;
    readonly keepText: boolean;
    readonly keepFiles: boolean;
  },
): Pick<ForwardPlan, 'body' | 'repeatable' | 'fields'> & { readonly headers: Record<string, string> } {
  const upload = new FormUpload(form, {
    ...options,
    record,
    change: (name, value) => (name === 'provider' ? undefined : options.change(name, value)),
    late(name, value) {
      refuseLate(name, value, target);
      if (!seesEverything(sight) && !referencesInForm([{ name, value }]).next().done) throw refusals.lateFileName(name);
    },
  });
  const repeatable = form.rest === undefined;
  const headers = { 'content-type': upload.contentType };
  const fields = form.held.filter((part) => part.kind === 'field');
  return { headers, body: repeatable ? upload.held() : upload, repeatable, fields };
}

/** @throws Refusal for a late field that would have selected another target */
function refuseLate(name: string, value: string, { provider, model }: Target): void {
  if (name === 'provider' && value !== provider.name && value !== provider.type) throw refusals.lateField(name);
  if (name === 'model' && model !== '') throw refusals.lateField(name);
}

function missingModel(): Refusal {
  return refusals.invalidRequest("Missing required parameter: 'model'.", 'model', 'missing_required_parameter');
}

async function* only(body: Buffer): AsyncGenerator<Buffer> {
  yield body;
}
