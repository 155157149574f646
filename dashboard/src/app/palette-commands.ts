/** What the palette offers for a text: a list of commands in groups, without the page. */
export interface Command {
  /** Unique in the list. */
  readonly id: string;
  readonly group: string;
  readonly title: string;
  readonly detail?: string;
  /** Words that find it beside its title. */
  readonly words?: string;
  readonly run: () => void;
}

/** Commands whose title, detail or words contain each word of the text. All for an empty text. */
export function matching(commands: readonly Command[], text: string): Command[] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  return commands.filter(({ title, detail = '', words = '' }) => {
    const searched = `${title} ${detail} ${words}`.toLowerCase();
    return wanted.every((word) => searched.includes(word));
  });
}

/** Whether a text can be the complete id of an exchange, a request, a response, an item, a session or a key. */
export function canBeId(text: string): boolean {
  return /^[\p{L}\p{N}_:./@+=-]{6,200}$/u.test(text) && /[\d_-]/.test(text);
}

/** Groups in the order of their first command. */
export function inGroups(
  commands: readonly Command[],
): { readonly group: string; readonly commands: readonly Command[] }[] {
  return [...Map.groupBy(commands, ({ group }) => group)].map(([group, list]) => ({ group, commands: list }));
}
