/** The texts of one stream, each rewritten on its own. Arguments of tool calls are JSON texts, whose values are rewritten. */
import type { StreamChannel } from '../guarded-text.ts';
import { JsonTextRewriter, type TextStage } from './json-text-rewriter.ts';

/** More texts in one answer are refused. */
const mostChannels = 4_096;

export class ChannelStages {
  readonly #open: () => TextStage;
  readonly #stages = new Map<string, TextStage>();

  /** @param open begins the rewriting of a text, or of a value within a JSON text */
  constructor(open: () => TextStage) {
    this.#open = open;
  }

  push(channel: StreamChannel, text: string): string {
    return this.#stageOf(channel).push(text);
  }

  end({ key }: StreamChannel): string {
    const stage = this.#stages.get(key);
    if (stage === undefined) return '';
    this.#stages.delete(key);
    return stage.end();
  }

  #stageOf({ key, isJson }: StreamChannel): TextStage {
    const known = this.#stages.get(key);
    if (known !== undefined) return known;
    if (this.#stages.size >= mostChannels) throw new Error(`the answer has more than ${mostChannels} open texts`);
    const stage = isJson ? new JsonTextRewriter(this.#open) : this.#open();
    this.#stages.set(key, stage);
    return stage;
  }
}
