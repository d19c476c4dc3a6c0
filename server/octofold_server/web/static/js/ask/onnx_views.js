/**
 * Gives a graph an output with each view's probabilities, as `octofold_server/backends/onnx_views.py` does.
 *
 * Two serialized protobuf messages, one after the other, are their union: a few bytes behind the file add nodes
 * and an output to its graph.
 */

/** The output that is appended. */
export const VIEWS = "octofold_views";

const PROBABILITIES = "view_probabilities";
const SCORES = "legal_scores";
const FLOAT_TYPE = field(1, [8, 1]); // a `TypeProto`: a tensor of type FLOAT

/**
 * The graph with the output `VIEWS`; the graph itself if it has no tensor for it.
 *
 * @param {Uint8Array} model
 * @param {number} temperature of the softmax over points, for a network that values moves
 * @returns {{model: Uint8Array, hasViews: boolean}}
 */
export function withViews(model, temperature) {
  let nodes;
  if (contains(model, PROBABILITIES)) {
    nodes = node("Identity", [PROBABILITIES], VIEWS);
  } else if (contains(model, SCORES)) {
    nodes = [
      ...node("Constant", [], "views_factor", floatAttribute("value_float", 1 / temperature)),
      ...node("Mul", [SCORES, "views_factor"], "views_tempered"),
      ...node("Softmax", ["views_tempered"], VIEWS),
    ];
  } else {
    return { model, hasViews: false };
  }
  const output = field(12, [...field(1, text(VIEWS)), ...field(2, FLOAT_TYPE)]);
  const appended = field(7, [...nodes, ...output]);
  const longer = new Uint8Array(model.length + appended.length);
  longer.set(model);
  longer.set(appended, model.length);
  return { model: longer, hasViews: true };
}

/** A `NodeProto` of a graph. */
function node(operator, inputs, output, attribute = []) {
  const names = inputs.flatMap((name) => field(1, text(name)));
  return field(1, [...names, ...field(2, text(output)), ...field(4, text(operator)), ...attribute]);
}

/** An `AttributeProto` of a node: its name, its number and its type, FLOAT. */
function floatAttribute(name, value) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return field(5, [...field(1, text(name)), 0x15, ...bytes, 0xa0, 1, 1]);
}

/** A field of a protobuf message, whose content is a text or a message. */
function field(number, content) {
  const size = [];
  let length = content.length;
  for (; length > 127; length >>= 7) size.push((length & 127) | 128);
  return [(number << 3) | 2, ...size, length, ...content];
}

const text = (characters) => [...new TextEncoder().encode(characters)];

function contains(bytes, word) {
  const wanted = text(word);
  for (let at = bytes.indexOf(wanted[0]); at >= 0; at = bytes.indexOf(wanted[0], at + 1)) {
    if (wanted.every((byte, i) => bytes[at + i] === byte)) return true;
  }
  return false;
}
