//! All weights of a decoder, whatever they are kept in: the plan of a checkpoint's tensors, burn
//! tensors and GPU matrices are the same [`Weights`] of different things.

/// All weights of a decoder-only transformer, its matrices as `M`, its vectors as `V`.
#[derive(Debug, Clone)]
pub struct Weights<M, V> {
    /// `[vocabulary, hidden]`.
    pub embedding: M,
    /// The blocks, one after another.
    pub blocks: Vec<Block<M, V>>,
    /// The final norm's weight, `[hidden]`.
    pub norm: V,
    /// `[vocabulary, hidden]`; `None` where the embedding is the output matrix too.
    pub head: Option<Linear<M, V>>,
}

/// The weights of one block: attention and gated MLP, each between norms.
#[derive(Debug, Clone)]
pub struct Block<M, V> {
    /// Before attention, `[hidden]`.
    pub attention_norm: Option<V>,
    /// `[heads · head_dim, hidden]`.
    pub query: Linear<M, V>,
    /// `[kv_heads · head_dim, hidden]`.
    pub key: Linear<M, V>,
    /// `[kv_heads · head_dim, hidden]`.
    pub value: Linear<M, V>,
    /// `[head_dim]`, or the width of all query heads.
    pub query_norm: Option<V>,
    /// `[head_dim]`, or the width of all key heads.
    pub key_norm: Option<V>,
    /// `[hidden, heads · head_dim]`.
    pub output: Linear<M, V>,
    /// After attention, `[hidden]`.
    pub attention_post_norm: Option<V>,
    /// Before the MLP, `[hidden]`.
    pub feed_forward_norm: Option<V>,
    /// `[feed_forward, hidden]`.
    pub gate: Linear<M, V>,
    /// `[feed_forward, hidden]`.
    pub up: Linear<M, V>,
    /// `[hidden, feed_forward]`.
    pub down: Linear<M, V>,
    /// After the MLP, `[hidden]`.
    pub feed_forward_post_norm: Option<V>,
}

/// A product's weight `[outputs, inputs]` and, where it has one, its bias `[outputs]`.
#[derive(Debug, Clone)]
pub struct Linear<M, V> {
    /// The matrix.
    pub weight: M,
    /// The bias.
    pub bias: Option<V>,
}

impl<M, V> Weights<M, V> {
    /// Every matrix.
    pub fn matrices(&self) -> impl Iterator<Item = &M> {
        let heads = self.head.iter().map(|head| &head.weight);
        let blocks = self.blocks.iter().flat_map(|block| {
            [
                &block.query,
                &block.key,
                &block.value,
                &block.output,
                &block.gate,
                &block.up,
                &block.down,
            ]
        });
        std::iter::once(&self.embedding)
            .chain(blocks.map(|linear| &linear.weight))
            .chain(heads)
    }

    /// Every vector: norms and biases.
    pub fn vectors(&self) -> impl Iterator<Item = &V> {
        let blocks = self.blocks.iter().flat_map(|block| {
            [
                &block.attention_norm,
                &block.query.bias,
                &block.key.bias,
                &block.value.bias,
                &block.query_norm,
                &block.key_norm,
                &block.output.bias,
                &block.attention_post_norm,
                &block.feed_forward_norm,
                &block.gate.bias,
                &block.up.bias,
                &block.down.bias,
                &block.feed_forward_post_norm,
            ]
        });
        let head = self.head.iter().filter_map(|head| head.bias.as_ref());
        std::iter::once(&self.norm)
            .chain(blocks.flatten())
            .chain(head)
    }
}
