import { SaxesParser } from 'saxes';

/** Elements inside each other. Workbooks have about 20. */
const MAX_DEPTH = 256;
/** Characters of a tag, a text or a comment. */
const MAX_TOKEN_CHARACTERS = 4 * 1024 * 1024;

/** The attributes of an element, by their names in the file. */
export type XmlAttributes = Readonly<Record<string, string>>;

/** Receives the elements of an XML document. Their names have no namespace prefix. */
export interface XmlHandler {
  open(name: string, attributes: XmlAttributes): void;
  close(name: string): void;
  text(text: string): void;
}

/** Parses XML in pieces, in bounded memory. */
export class XmlParser {
  readonly #parser = new SaxesParser();
  readonly #invalid: (reason: string) => Error;
  #depth = 0;
  /** Characters since the last tag or text. */
  #token = 0;

  /** @param invalid makes the error for XML that is not well-formed */
  constructor(handler: XmlHandler, invalid: (reason: string) => Error) {
    this.#invalid = invalid;
    this.#parser.on('error', ({ message }) => {
      throw invalid(`its XML is not well-formed (${message})`);
    });
    this.#parser.on('doctype', () => {
      throw invalid('its XML has a document type');
    });
    this.#parser.on('opentag', ({ name, attributes }) => {
      this.#token = 0;
      if (++this.#depth > MAX_DEPTH) throw invalid(`its XML is deeper than ${MAX_DEPTH} elements`);
      handler.open(localName(name), attributes);
    });
    this.#parser.on('closetag', ({ name }) => {
      this.#token = 0;
      this.#depth--;
      handler.close(localName(name));
    });
    const onText = (text: string) => {
      this.#token = 0;
      handler.text(text);
    };
    this.#parser.on('text', onText);
    this.#parser.on('cdata', onText);
  }

  write(text: string): void {
    // The parser keeps a tag or a text until its end, however long it is.
    this.#token += text.length;
    this.#parser.write(text);
    if (this.#token > MAX_TOKEN_CHARACTERS) throw this.#invalid('its XML has a tag or a text without an end');
  }

  end(): void {
    this.#parser.close();
  }
}

/** The name of an element or an attribute without its namespace prefix. */
export function localName(name: string): string {
  const colon = name.indexOf(':');
  return colon < 0 ? name : name.slice(colon + 1);
}
