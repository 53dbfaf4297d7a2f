//! Weights as the GPU multiplies by them: quantised, and stacked where one product serves several.

use conclave_kernels::{Buffer, Format as GpuFormat, Gpu, Matrix, MatrixUpload};
use conclave_weights::Format;

use crate::error::ModelError;
use crate::formats::on_gpu;
use crate::fused::WeightLayout;
use crate::reading::WeightSink;
use crate::weights::Linear;

/// One or more matrices with the same input, their outputs side by side, and their biases.
#[derive(Debug)]
pub struct Product {
    /// One matrix, or several if their formats differ or one matrix can't hold all rows.
    pub matrices: Vec<Matrix>,
    /// Biases one after another, a number for each row of the matrices.
    pub bias: Option<Buffer>,
}

/// Gate and up of a gated MLP.
#[derive(Debug)]
pub enum Gate {
    /// One matrix, gate over up.
    Stacked(Product),
    /// Two products: formats differ, or one buffer does not hold both.
    Apart([Product; 2]),
}

impl Product {
    /// Number of outputs for a row.
    pub fn width(&self) -> usize {
        self.matrices.iter().map(Matrix::rows).sum()
    }
}

impl WeightLayout for Gpu {
    type Matrix = Matrix;
    type Vector = Buffer;
    type Product = Product;
    type Gate = Gate;

    fn product(&self, linears: Vec<Linear<Matrix, Buffer>>) -> Result<Product, ModelError> {
        match <[Linear<Matrix, Buffer>; 1]>::try_from(linears) {
            Ok([one]) => Ok(alone(one)),
            Err(several) => join(self, stack(self, several)?),
        }
    }

    fn gate(
        &self,
        gate: Linear<Matrix, Buffer>,
        up: Linear<Matrix, Buffer>,
    ) -> Result<Gate, ModelError> {
        let linears = stack(self, vec![gate, up])?;
        Ok(match <[Linear<Matrix, Buffer>; 2]>::try_from(linears) {
            Ok(two) => Gate::Apart(two.map(alone)),
            Err(one) => Gate::Stacked(join(self, one)?),
        })
    }
}

fn alone(linear: Linear<Matrix, Buffer>) -> Product {
    Product {
        matrices: vec![linear.weight],
        bias: linear.bias,
    }
}

/// Stacks all matrices into one, with one bias; returns them unchanged if they do not stack.
fn stack(
    gpu: &Gpu,
    linears: Vec<Linear<Matrix, Buffer>>,
) -> Result<Vec<Linear<Matrix, Buffer>>, ModelError> {
    let matrices: Vec<&Matrix> = linears.iter().map(|linear| &linear.weight).collect();
    let Some(weight) = Matrix::stack(gpu, &matrices)? else {
        return Ok(linears);
    };
    let bias = biases(gpu, &linears)?;
    Ok(vec![Linear { weight, bias }])
}

/// Products side by side.
fn join(gpu: &Gpu, linears: Vec<Linear<Matrix, Buffer>>) -> Result<Product, ModelError> {
    let bias = match linears.as_slice() {
        [one] => one.bias.clone(),
        several => biases(gpu, several)?,
    };
    let matrices = linears.into_iter().map(|linear| linear.weight).collect();
    Ok(Product { matrices, bias })
}

/// The biases one after another, zeros for those that are missing.
fn biases(gpu: &Gpu, linears: &[Linear<Matrix, Buffer>]) -> Result<Option<Buffer>, ModelError> {
    if linears.iter().all(|linear| linear.bias.is_none()) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(linears.len());
    for linear in linears {
        all.push(match &linear.bias {
            Some(bias) => bias.clone(),
            None => gpu.upload(&vec![0.0_f32; linear.weight.rows()])?,
        });
    }
    Ok(Some(gpu.concat(&all.iter().collect::<Vec<_>>())?))
}

/// Keeps weights on a GPU.
#[derive(Debug)]
pub struct GpuWeights<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// Format that plain numbers are rounded to.
    pub quantise: Option<Format>,
}

impl WeightSink for GpuWeights<'_> {
    type Matrix = Matrix;
    type Vector = Buffer;
    type Upload = MatrixUpload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        on_gpu(stored, cols, self.quantise).map(|(format, _)| format)
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<MatrixUpload, ModelError> {
        let format = GpuFormat::from_stored(format)
            .ok_or(ModelError::Order("no kernel reads that format"))?;
        Ok(Matrix::begin(self.gpu, format, rows, cols)?)
    }

    fn push(&self, upload: &mut MatrixUpload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(upload.push(rows)?)
    }

    fn finish(&self, upload: MatrixUpload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Buffer, ModelError> {
        Ok(self.gpu.upload(&values)?)
    }
}
